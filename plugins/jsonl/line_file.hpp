// A file of lines: each line is one write(2), so that it is there whole or not at all, also on a full disk.
//
// A file that is renamed or removed is let go: the next line goes into a new one of the configured name. Who rotates
// files may also truncate them: lines always go to the end that the file has then.
//
// Threads: constructor, close(), destructor [setup]; append(), follow(), reopen() [post].
// Invariants: a failed append() leaves the file as it was before (regular files); append() and follow() do not allocate
//   unless they fail or open a file. Regular files are locked (flock), so two writers cannot mix their lines. The
//   instances of two starts of a configuration, the one that runs and the one that is to take its place, share one open
//   file: nothing is emptied between them, and no line is lost or broken.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace camd::plugins {

class LineFile {
 public:
  // What would become of a LineFile of a path. Makes and opens nothing.
  struct Finding {
    std::string path;     // with its times filled in, as of now
    std::string problem;  // why it cannot be written; empty: it can
    bool regular = true;  // a file that one instance alone may write
  };
  [[nodiscard]] static Finding look_at(const std::string& path);

  // Opens or creates `path` with its folders, times in it filled in (at_time()). At the first start (`reloads` is 0)
  // and without `append`, what the file held is kept until the first append() and then dropped; otherwise it is kept
  // for good, and a last line that nobody finished is ended before the first append(). `reloads` is camd_host.reloads.
  // Throws std::invalid_argument: folders, rights, pipes, stdout, a second writer.
  LineFile(std::string path, bool append, std::uint32_t reloads);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // `line` ends with '\n'. Throws std::runtime_error naming path and cause.
  void append(std::string_view line);
  // Looks, at most once a second of `now_ns`, whether the file still has its name; if not, it is opened anew. Returns
  // what is to be told of that, empty: nothing. Where no new file can be had, lines go on into the one that was.
  [[nodiscard]] std::string follow(std::int64_t now_ns) {
    return now_ns < next_look_ns_ ? std::string() : look(now_ns);
  }
  // Opens anew what the path leads to now; nothing happens when that is the same file. Throws std::invalid_argument as
  // the constructor does; the file stays what it was then.
  void reopen();
  // Closes, unless the instance of another start has the file too. A file that was created here and never written is
  // removed, so that a start that fails leaves no trace. Throws std::runtime_error when the file system reports a late
  // error.
  void close();

 private:
  struct Open;    // the file, by whoever has it
  struct Opened;  // a file that was just opened

  [[nodiscard]] std::string look(std::int64_t now_ns);

  const std::string path_;      // as configured
  std::shared_ptr<Open> open_;  // null after close()
  const std::uint32_t reloads_;
  bool regular_ = false;  // else a device, which is never opened anew
  std::int64_t next_look_ns_ = 0;
  bool told_ = false;  // that no new file can be had
};

}  // namespace camd::plugins
