// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ddp::internal {

/// The report about the cause of the process's death: the error file of TORCHELASTIC_ERROR_FILE.
/// Signal handlers may call all functions except prepare_crash_report().

/// Opens and loads what the rest needs. `error_file` is TORCHELASTIC_ERROR_FILE, or nullptr.
void prepare_crash_report(const char* error_file);

/// Whether the calling thread has to write the report: true once, in this process and not in its
/// forked children. Then it must call finish_crash_report().
bool begin_crash_report();

/// Waits until another thread has finished the report that it began. Returns at once in the thread
/// that began it.
void wait_for_crash_report();

/// Writes the file, whole or not at all. A later call replaces it. Texts are UTF-8.
void write_crash_report(std::string_view message, std::string_view traceback);

void finish_crash_report();

/// Writes all of `text` to stderr.
void print(std::string_view text);

}  // namespace ddp::internal
