// What the program is asked for on its command line.
#pragma once

namespace baton::cli {

// Runs the command that was asked for, prints its error, and returns the exit code. Called once, by
// the main thread.
int Main(int argc, char** argv);

}  // namespace baton::cli
