package ucxam

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// processVariables are what UCX reads when its library is loaded, before any
// code of ours. The value holds where the user has set none.
var processVariables = map[string]string{
	"UCX_HANDLE_ERRORS": "none", // no signal handlers: they are Go's
	"UCX_DEBUG_SIGNO":   "0",
	"UCX_MEM_EVENTS":    "n",      // its hooks into mmap do not see Go's
	"UCX_LOG_FILE":      "stderr", // standard output is the plugin protocol's
	"UCX_VFS_ENABLE":    "n",      // a thread for a file system that nobody mounts
}

// PrepareProcess gives the process the environment that UCX has to be loaded
// with. Where a variable is missing, the program starts anew, in the same
// process and with the same arguments and descriptors; so it must be the first
// thing that main does. Without UCX in the build it does nothing.
func PrepareProcess() error {
	if missing != "" {
		return nil
	}
	complete := true
	for name, value := range processVariables {
		if _, is := os.LookupEnv(name); !is {
			complete = false
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	if complete {
		return nil
	}
	err := unix.Exec("/proc/self/exe", os.Args, os.Environ())
	return fmt.Errorf("starting anew with UCX's variables: %w", err)
}
