#include "base/sha256.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.hpp"

namespace camd::base {
namespace CAMD_TEST_FILE {

// The digests of NIST's examples (csrc.nist.gov, "Cryptographic Standards and Guidelines", SHA-256).
constexpr const char* kOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kOfAMillionA = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

class Sha256File : public testing::Test {
 protected:
  Sha256File()
      : path_(std::filesystem::path(testing::TempDir()) /
              (std::string("camd_sha256_") + testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~Sha256File() override { std::filesystem::remove(path_); }

  std::filesystem::path path_;
};

TEST(Sha256, GivesTheDigestsOfItsStandard) {
  EXPECT_EQ(sha256(""), kOfNothing);
  EXPECT_EQ(sha256("abc"), kOfAbc);
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')), kOfAMillionA);
}

TEST(Sha256, TakesNulBytesAsBytes) {
  EXPECT_EQ(sha256(std::string(1, '\0')), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
}

TEST_F(Sha256File, EqualsTheDigestOfTheText) {
  std::ofstream(path_, std::ios::binary) << std::string(1'000'000, 'a');
  EXPECT_EQ(sha256_file(path_), kOfAMillionA);
}

TEST_F(Sha256File, OfAnEmptyFileIsThatOfNothing) {
  std::ofstream(path_, std::ios::binary).close();
  EXPECT_EQ(sha256_file(path_), kOfNothing);
}

TEST_F(Sha256File, NamesTheFileThatIsMissing) {
  try {
    (void)sha256_file(path_);
    FAIL() << "a missing file has a digest";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_EQ(std::string(error.what()), path_.string() + ": cannot be read: No such file or directory");
  }
}

TEST_F(Sha256File, NamesAFolderThatIsNoFile) {
  try {
    (void)sha256_file(testing::TempDir());
    FAIL() << "a folder has a digest";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), testing::HasSubstr("cannot be read: Is a directory"));
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::base
