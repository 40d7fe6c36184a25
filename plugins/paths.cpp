#include "plugins/paths.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace camd::plugins {
namespace {

// strftime's conversions that a path may hold: those that are the same in every language.
constexpr const char* kTimes = "YymdjHMSF%";

}  // namespace

std::string file_part(std::string_view name) {
  std::string part(name);
  for (char& c : part) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (!plain) c = '_';
  }
  // "." and ".." are folders, and a leading dot hides the file.
  if (part.empty() || part.front() == '.') part.insert(part.begin(), '_');
  return part;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::vector<std::string> camera_parts(const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    if (name.empty()) {
      parts.emplace_back();
      continue;
    }
    const std::string part = file_part(name);
    const auto same = std::find(parts.begin(), parts.end(), part);
    if (same != parts.end()) {
      throw std::invalid_argument("cameras '" + names[static_cast<std::size_t>(same - parts.begin())] + "' and '" +
                                  name + "' would both write '" + part +
                                  "': give them names that differ in letters, digits, '-' or '_'");
    }
    parts.push_back(part);
  }
  return parts;
}

std::vector<std::string> camera_parts(const camd_model& model) {
  return camera_parts(std::vector<std::string>(model.camera_names, model.camera_names + model.camera_count));
}

std::string camera_path(const std::string& path, const std::string& camera_part, bool several) {
  if (path.find("{camera}") != std::string::npos) return replaced(path, "{camera}", camera_part);
  if (!several) return path;
  const std::filesystem::path whole(path);
  return (whole.parent_path() / (whole.stem().string() + "-" + camera_part + whole.extension().string())).string();
}

std::string time_problem(std::string_view path) {
  for (std::size_t at = path.find('%'); at != std::string_view::npos; at = path.find('%', at + 2)) {
    if (at + 1 < path.size() && std::string_view(kTimes).find(path[at + 1]) != std::string_view::npos) continue;
    return "'" + std::string(path.substr(at, 2)) +
           "' is no time that a path may hold: %Y, %y, %m, %d, %j, %H, %M, %S and %F are (write %% for a percent sign)";
  }
  return {};
}

std::string at_time(const std::string& path, std::time_t when) {
  std::tm utc{};
  gmtime_r(&when, &utc);
  std::string filled;
  for (std::size_t at = 0; at < path.size(); ++at) {
    if (path[at] != '%' || at + 1 == path.size()) {
      filled += path[at];
      continue;
    }
    const std::array<char, 3> conversion{'%', path[++at], '\0'};
    std::array<char, 32> text{};
    filled.append(text.data(), std::strftime(text.data(), text.size(), conversion.data(), &utc));
  }
  return filled;
}

std::string numbered(const std::string& path, int number) {
  if (number == 1) return path;
  const std::filesystem::path whole(path);
  const std::string name = whole.stem().string() + "-" + std::to_string(number) + whole.extension().string();
  return (whole.parent_path() / name).string();
}

bool is_there(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0;
}

bool has_sequences(const std::string& path) {
  std::string escaped;
  for (const char c : path) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  glob_t found{};
  const bool any = ::glob(replaced(escaped, "{sequence}", "[0-9]*").c_str(), GLOB_NOSORT, nullptr, &found) == 0;
  ::globfree(&found);
  return any;
}

FileId file_at(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? FileId{found.st_dev, found.st_ino} : FileId{};
}

void create_parents(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw std::invalid_argument("cannot create the folder " + folder.string() + ": " + error.message());
}

std::string folder_problem(const std::string& folder) {
  std::filesystem::path there(folder.empty() ? "." : folder);
  struct stat found {};
  while (::stat(there.c_str(), &found) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return "cannot create the folder " + io_message(folder, errno);
    const std::filesystem::path above = there.parent_path();
    if (above == there) break;
    there = above.empty() ? "." : above;
  }
  const bool is_folder = S_ISDIR(found.st_mode);
  if (is_folder && ::access(there.c_str(), W_OK | X_OK) == 0) return {};
  const int why = is_folder ? errno : ENOTDIR;
  return there == std::filesystem::path(folder.empty() ? "." : folder) && is_folder
             ? "cannot write into the folder " + io_message(there.string(), why)
             : "cannot create the folder " + io_message(folder, why);
}

std::string io_message(const std::string& path, int error_number) {
  return path + ": " + std::generic_category().message(error_number);
}

void write_whole_file(const std::string& path, const void* bytes, std::size_t size) {
  const std::string part = path + ".part";
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  int file = ::open(part.c_str(), kFlags, 0644);
  if (file < 0 && errno == ENOENT) {
    create_parents(path);
    file = ::open(part.c_str(), kFlags, 0644);
  }
  if (file < 0) throw std::runtime_error("cannot write " + io_message(part, errno));
  const char* at = static_cast<const char*>(bytes);
  std::size_t left = size;
  int problem = 0;
  while (left > 0 && problem == 0) {
    const ssize_t written = ::write(file, at, left);
    if (written > 0) {
      at += written;
      left -= static_cast<std::size_t>(written);
    } else if (written == 0 || errno != EINTR) {
      problem = written == 0 ? ENOSPC : errno;
    }
  }
  if (::close(file) != 0 && problem == 0) problem = errno;
  if (problem == 0 && std::rename(part.c_str(), path.c_str()) != 0) problem = errno;
  if (problem != 0) {
    static_cast<void>(::unlink(part.c_str()));
    throw std::runtime_error("cannot write " + io_message(path, problem));
  }
}

}  // namespace camd::plugins
