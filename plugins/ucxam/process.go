package ucxam

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// processVariables are variables that UCX reads when its library is loaded, before main. A
// value that the user has set wins.
var processVariables = map[string]string{
	"UCX_HANDLE_ERRORS": "none", // no signal handlers: Go has its own
	"UCX_DEBUG_SIGNO":   "0",
	"UCX_MEM_EVENTS":    "n",      // its mmap hooks do not see Go's calls
	"UCX_LOG_FILE":      "stderr", // the plugin protocol uses standard output
	"UCX_VFS_ENABLE":    "n",      // a thread for a file system that is not used
}

// PrepareProcess sets the variables that UCX reads when it is loaded. If one is missing, it
// executes the program again in the same process, with the same arguments and descriptors; so main
// must call it first. In a build without UCX it does nothing.
func PrepareProcess() error {
	if missing != "" {
		return nil
	}
	complete := true
	for name, value := range processVariables {
		if _, ok := os.LookupEnv(name); !ok {
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
	return fmt.Errorf("executing the program again with UCX's variables: %w", err)
}
