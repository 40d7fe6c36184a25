#include <gtest/gtest.h>

#include "apps/dashboard/text.hpp"

namespace camd::dashboard {
namespace CAMD_TEST_FILE {

TEST(DashboardText, EscapesWhatCouldSteerTheTerminal) {
  EXPECT_EQ(printable("a\x1b]0;owned\x07z"), "a\\x1b]0;owned\\x07z");
  EXPECT_EQ(printable("two\nlines\ttab\r\x7f"), "two\\x0alines\\x09tab\\x0d\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\u{9b}31m");  // CSI as one C1 character
  EXPECT_EQ(printable("a\xE2\x80\xAE"
                      "b"),
            "a\\u{202e}b");  // right-to-left override
  EXPECT_EQ(printable("a\xE2\x80\x8B"
                      "b"),
            "a\\u{200b}b");  // zero-width space
  EXPECT_EQ(printable(std::string_view("nul\0!", 5)), "nul\\x00!");
}

TEST(DashboardText, ReplacesBrokenUtf8ByteByByte) {
  EXPECT_EQ(printable("\xFF"), "\uFFFD");
  EXPECT_EQ(printable("a\xC3"), "a\uFFFD");                    // cut short
  EXPECT_EQ(printable("\xC0\xAF"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(printable("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(printable("grün 倉庫 🎥"), "grün 倉庫 🎥");
}

TEST(DashboardText, KeepsAtMostTwoCombiningMarksAndNoneWithoutABase) {
  EXPECT_EQ(printable("e\u0301\u0302\u0303\u0304x"), "e\u0301\u0302x");
  EXPECT_EQ(printable("\u0301x"), "x");
  EXPECT_EQ(printable("👩\u200D👧\uFE0F"), "👩👧");
}

TEST(DashboardText, CountsCellsOfWideAndCombiningCharacters) {
  EXPECT_EQ(text_width("door"), 4);
  EXPECT_EQ(text_width("Süd"), 3);
  EXPECT_EQ(text_width("Su\u0308d"), 3);
  EXPECT_EQ(text_width("倉庫カメラ"), 10);
  EXPECT_EQ(text_width("🎥"), 2);
  EXPECT_EQ(text_width("한국"), 4);
  EXPECT_EQ(text_width("▸●█░…"), 5);
}

TEST(DashboardText, ClipsBetweenCharactersAndNeverWider) {
  EXPECT_EQ(clip("garden", 6), "garden");
  EXPECT_EQ(clip("garden", 5), "gard…");
  EXPECT_EQ(clip("倉庫カメラ", 6), "倉庫…");  // a wide character that does not fit whole is left out
  EXPECT_EQ(clip("倉庫カメラ", 5), "倉庫…");
  EXPECT_EQ(clip("x", 0), "");
  EXPECT_EQ(pad_right("倉庫カメラ", 6), "倉庫… ");
  EXPECT_EQ(pad_left("12", 4), "  12");
}

TEST(DashboardText, RemovesColoursFromLogLinesAndNothingElse) {
  EXPECT_EQ(without_colours("[\x1b[33m\x1b[1mwarning\x1b[m] slow"), "[warning] slow");
  EXPECT_EQ(without_colours("a\x1b[2Jb\x1b["), "a\x1b[2Jb\x1b[");
}

TEST(DashboardText, ShowsThreeSignificantDigits) {
  EXPECT_EQ(format_ms(32), "0.032");
  EXPECT_EQ(format_ms(1234), "1.23");
  EXPECT_EQ(format_ms(9996), "10.0");
  EXPECT_EQ(format_ms(99960), "100");
  EXPECT_EQ(format_ms(3.6e9), "3600s");
  EXPECT_EQ(format_ms(-1), "-");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1382400), "1.38 MB");
  EXPECT_EQ(format_bytes(999600), "1.00 MB");
  EXPECT_EQ(format_elapsed(754'000'000'000), "00:12:34");
  EXPECT_EQ(format_elapsed(273'906'000'000'000), "3d 04:05:06");
  EXPECT_EQ(format_rate(29.97), "30.0");
  EXPECT_EQ(format_rate(3205.4), "3205");
  EXPECT_EQ(format_number(1234567), "1234567");
  EXPECT_EQ(format_number(-3), "-3");
  EXPECT_EQ(format_number(0.123456), "0.1235");
  EXPECT_EQ(format_number(1e300), "1e+300");
}

TEST(DashboardText, ALineIsCutAtTheColumnsWithAnEllipsis) {
  Line line("camera ", Style::kDim);
  line.add("倉庫", Style::kBold).add(" 30.0");
  EXPECT_EQ(line.width(), 16);
  Line same = line;
  same.fit(16);
  EXPECT_EQ(same, line);
  line.fit(10);
  EXPECT_EQ(line.plain(), "camera 倉…");
  EXPECT_EQ(line.width(), 10);
  line.fit(0);
  EXPECT_EQ(line.plain(), "");
}

TEST(DashboardText, WithoutColourOnlyBoldDimAndReverseAreLeft) {
  Line line("up", Style::kGood);
  line.add("bad", Style::kBad).add("sel", Style::kSelected).add("dim", Style::kDim);
  EXPECT_EQ(line.ansi(true), "\x1b[32mup\x1b[0m\x1b[1;31mbad\x1b[0m\x1b[1;36msel\x1b[0m\x1b[2mdim\x1b[0m");
  EXPECT_EQ(line.ansi(false), "up\x1b[1mbad\x1b[0m\x1b[7msel\x1b[0m\x1b[2mdim\x1b[0m");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::dashboard
