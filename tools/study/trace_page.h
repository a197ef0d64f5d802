#pragma once

#include <string>

namespace wick::study {

/// Writes a page that draws the trace in the file `trace`: HTML that needs no other file and no
/// network. The trace is in Chrome's format, as profile::write_chrome_trace() and others write it.
/// Error if it is not.
void write_trace_page(const std::string& trace, const std::string& page);

}  // namespace wick::study
