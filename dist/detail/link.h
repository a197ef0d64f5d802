#pragma once

#include <cstddef>

namespace wick::dist {

/// The way to and from one other rank, in messages of at most slot_bytes(), which come in the order
/// in which they were sent. Several can be under way. Waiting ends as Control::check says. One
/// thread uses it.
class Link {
 public:
  virtual ~Link() = default;
  virtual size_t slot_bytes() const = 0;
  /// Waits for room, and returns where to write the next message.
  virtual void* begin_send() = 0;
  virtual void end_send(size_t bytes) = 0;
  /// Waits for the next message, which is of `bytes`, and returns where it lies until release().
  virtual const void* receive(size_t bytes) = 0;
  virtual void release() = 0;
  /// Whether a message is there. Asked when one was waited for in vain.
  virtual bool has_message() = 0;
  /// Waits until what was sent is on its way for good.
  virtual void finish() {}
  /// Makes another thread's waiting look at Control::check now.
  virtual void wake() {}
};

}  // namespace wick::dist
