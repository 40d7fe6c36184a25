#include "capture/copy_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace camd::capture {
namespace CAMD_TEST_FILE {

constexpr std::byte kUntouched{0xEE};

std::vector<std::byte> numbered(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 % 251);
  return bytes;
}

class CopyRows : public ::testing::TestWithParam<NextReader> {};

TEST_P(CopyRows, CopiesEverySizeFromEveryPlaceToEveryPlaceAndNothingBeyond) {
  const std::vector<std::byte> from = numbered(512);
  for (const std::size_t size : {0U, 1U, 15U, 16U, 63U, 64U, 65U, 127U, 128U, 200U, 300U}) {
    for (std::size_t to_offset = 0; to_offset < 70; ++to_offset) {
      const std::size_t from_offset = to_offset * 3 % 64;
      std::vector<std::byte> to(512, kUntouched), want(512, kUntouched);
      std::copy_n(from.data() + from_offset, size, want.data() + to_offset);
      copy_rows(to.data() + to_offset, size, from.data() + from_offset, size, 1, GetParam());
      ASSERT_EQ(to, want) << size << " bytes at " << to_offset;
    }
  }
}

TEST_P(CopyRows, LeavesOutWhatOnlyOneStrideCovers) {
  const std::vector<std::byte> from = numbered(3000);
  for (const auto& [to_stride, from_stride] : {std::pair<std::size_t, std::size_t>{100, 130}, {130, 100}, {128, 128}}) {
    std::vector<std::byte> to(3000, kUntouched), want(3000, kUntouched);
    for (std::size_t row = 0; row < 7; ++row) {
      std::copy_n(from.data() + row * from_stride, std::min(to_stride, from_stride), want.data() + row * to_stride);
    }
    copy_rows(to.data(), to_stride, from.data(), from_stride, 7, GetParam());
    EXPECT_EQ(to, want);
  }
}

TEST_P(CopyRows, CopiesNothingWithoutRows) {
  const std::vector<std::byte> from = numbered(100);
  std::vector<std::byte> to(100, kUntouched);
  copy_rows(to.data(), 10, from.data(), 10, 0, GetParam());
  copy_rows(to.data(), 10, from.data(), 12, -1, GetParam());
  EXPECT_EQ(to, std::vector<std::byte>(100, kUntouched));
}

TEST(NextReader, IsTheDeviceWhereItFetchesFromTheSlotItself) {
  using device::HostMemory;
  const device::DeviceInfo gpu;
  EXPECT_EQ(next_reader_of(gpu, HostMemory::kPinned), NextReader::kDevice);
  EXPECT_EQ(next_reader_of(gpu, HostMemory::kMapped), NextReader::kDevice);
  EXPECT_EQ(next_reader_of(gpu, HostMemory::kPageable), NextReader::kCpu);
  device::DeviceInfo host;
  host.works_in_host_memory = true;
  for (const auto memory : {HostMemory::kPageable, HostMemory::kPinned, HostMemory::kMapped}) {
    EXPECT_EQ(next_reader_of(host, memory), NextReader::kCpu);
  }
}

INSTANTIATE_TEST_SUITE_P(ForBoth, CopyRows, ::testing::Values(NextReader::kCpu, NextReader::kDevice),
                         [](const auto& reader) { return reader.param == NextReader::kCpu ? "Cpu" : "Device"; });

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
