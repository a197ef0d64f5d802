#include "wick/core/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick {
namespace {

using wick::testing::error_of;
namespace fs = std::filesystem;
using wick::testing::TemporaryFolder;

// Runs `body` in a child process, whose limits it may lower; returns what the child reported, or
// how it died.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string report;
    try {
      report = body();
    } catch (const std::exception& error) {
      report = error.what();
    }
    const ssize_t put = write(ends[1], report.data(), report.size());
    _exit(put == static_cast<ssize_t>(report.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string report;
  char buffer[512];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    report.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) report += concat(" killed by signal ", WTERMSIG(status));
  return report;
}

size_t files_in(const std::string& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(File, WritesAndReads) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  write_file(path, "one");
  EXPECT_EQ(read_file(path, 3), "one");
  write_file(path, std::string("t\0o", 3));
  EXPECT_EQ(read_file(path, 100), std::string("t\0o", 3));
  write_file(path, "");
  EXPECT_EQ(read_file(path, 0), "");
  EXPECT_EQ(files_in(folder.path("")), 1u);
}

TEST(File, NamesTheFileAndTheReason) {
  const TemporaryFolder folder;
  const std::string missing = folder.path("no/such");
  EXPECT_EQ(error_of([&] { read_file(missing, 10); }),
            "cannot read " + missing + ": No such file or directory");
  EXPECT_EQ(error_of([&] { write_file(missing, "x"); }),
            "cannot write " + missing + ": No such file or directory");
  const std::string path = folder.path("a");
  write_file(path, "12345");
  EXPECT_EQ(error_of([&] { read_file(path, 4); }),
            "cannot read " + path + ": it has 5 bytes, expected at most 4");
  EXPECT_EQ(error_of([&] {
              char buffer[8];
              InputFile(path).read_at(3, buffer, 8);
            }),
            "cannot read " + path + ": the file ends at byte 5, expected 6 more");
}

TEST(File, TakesOnlyRegularFiles) {
  const TemporaryFolder folder;
  const std::string fifo = folder.path("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, folder.path(""), std::string("/dev/full")}) {
    EXPECT_NE(error_of([&] { read_file(path, 10); }).find("not a regular file"), std::string::npos)
        << path;
    EXPECT_NE(error_of([&] { write_file(path, "x"); }).find("not a regular file"),
              std::string::npos)
        << path;
  }
}

TEST(File, WritesWhatALinkPointsTo) {
  const TemporaryFolder folder;
  write_file(folder.path("a"), "old");
  fs::create_symlink("a", folder.path("link"));
  write_file(folder.path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(folder.path("link")));
  EXPECT_EQ(read_file(folder.path("a"), 10), "new");
}

TEST(File, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  write_file(folder.path("a"), "old");
  {
    AtomicFile file(folder.path("a"));
    file.write("half");
    EXPECT_EQ(read_file(folder.path("a"), 10), "old");
  }
  EXPECT_EQ(read_file(folder.path("a"), 10), "old");
  EXPECT_EQ(files_in(folder.path("")), 1u);
}

TEST(File, LeavesNothingWhenItsProcessIsKilled) {
  const TemporaryFolder folder;
  const int nameless = open(folder.path("").c_str(), O_WRONLY | O_TMPFILE, 0600);
  if (nameless < 0) GTEST_SKIP() << "the file system has no files without names";
  close(nameless);
  const std::string report = in_child([&] {
    AtomicFile file(folder.path("a"));
    file.write("half");
    raise(SIGKILL);
    return std::string();
  });
  EXPECT_EQ(report, " killed by signal 9");
  EXPECT_EQ(files_in(folder.path("")), 0u);
}

TEST(File, KeepsTheOldContentAtTheFileSizeLimit) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  write_file(path, "old");
  const std::string report = in_child([&] {
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    return error_of([&] { write_file(path, std::string(100'000, 'x')); });
  });
  EXPECT_EQ(report, "cannot write " + path + ": File too large");
  EXPECT_EQ(read_file(path, 10), "old");
  EXPECT_EQ(files_in(folder.path("")), 1u);
}

TEST(File, KeepsTheOldContentOnAFullDisk) {
  const TemporaryFolder folder;
  const std::string disk = folder.path("disk");
  fs::create_directory(disk);
  if (mount("wick", disk.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "mounting a small file system needs root";
  }
  write_file(disk + "/a", "old");
  EXPECT_EQ(error_of([&] { write_file(disk + "/a", std::string(100'000, 'x')); }),
            "cannot write " + disk + "/a: No space left on device");
  EXPECT_EQ(read_file(disk + "/a", 10), "old");
  EXPECT_EQ(files_in(disk), 1u);
  EXPECT_EQ(umount(disk.c_str()), 0);
}

TEST(File, SaysWhenAFolderCannotBeWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  ASSERT_EQ(chmod(folder.path("").c_str(), 0500), 0);
  const std::string report = in_child([&] {
    if (geteuid() == 0 && (chown(folder.path("").c_str(), 65534, 65534) != 0 ||
                           setgid(65534) != 0 || setuid(65534) != 0)) {
      return std::string("cannot give up root");
    }
    return error_of([&] { write_file(path, "x"); });
  });
  EXPECT_EQ(report, "cannot write " + path + ": Permission denied");
}

TEST(File, IsLockedOnlyWhileItIsThere) {
  const TemporaryFolder folder;
  const std::string path = folder.path("lock");
  std::atomic<int> locked = 0, gone = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        const int descriptor = open_locked(path);
        if (descriptor < 0) continue;
        ++locked;
        struct stat info;
        // Of a file that is gone there may be another one by now, with a lock of its own.
        if (fstat(descriptor, &info) != 0 || info.st_nlink == 0) ++gone;
        unlink(path.c_str());
        close(descriptor);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gone, 0);
  EXPECT_GT(locked, 4);
}

TEST(File, SurvivesBeingKilledWhileWriting) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  write_file(path, std::string(200'000, 'a'));
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (char c = 'b';; c = c == 'z' ? 'a' : static_cast<char>(c + 1)) {
        write_file(path, std::string(200'000, c));
      }
    }
    usleep(static_cast<useconds_t>(1000 + 700 * i));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string content = read_file(path, 200'000);
    ASSERT_EQ(content, std::string(200'000, content.at(0)));
  }
}

}  // namespace
}  // namespace wick
