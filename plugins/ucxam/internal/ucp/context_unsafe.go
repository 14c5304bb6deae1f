//go:build ucx && cgo

package ucp

/*
#cgo pkg-config: ucx
#cgo CFLAGS: -O2 -Wall -Wextra
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// Missing is empty: UCX is linked.
const Missing = ""

// Version returns the version of the UCX that is loaded.
func Version() string {
	var major, minor, release C.uint
	C.ucp_get_version(&major, &minor, &release)
	return fmt.Sprintf("%d.%d.%d", major, minor, release)
}

func statusError(s C.ucs_status_t) error {
	if s == C.UCS_OK {
		return nil
	}
	return &Status{Code: int(s), Text: C.GoString(C.ucs_status_string(s))}
}

// Words returns UCX's words for a reason that is one of its statuses.
func (r Reason) Words() string {
	switch r {
	case Closed:
		return "closed"
	case Corrupt:
		return "broke the protocol"
	default:
		return C.GoString(C.ucs_status_string(C.ucs_status_t(r)))
	}
}

// environment guards the process's environment, which UCX reads whenever it
// opens a context, a worker or a device.
var environment sync.Mutex

// withEnvironment runs f while settings are in the environment. There is no
// other way to set what belongs to one of UCX's transports: ucp_config_modify
// takes the names and ignores them (UCX 1.13).
func withEnvironment(settings []Setting, f func() error) error {
	environment.Lock()
	defer environment.Unlock()
	for _, s := range settings {
		name := "UCX_" + s.Name
		before, there := os.LookupEnv(name)
		if err := os.Setenv(name, s.Value); err != nil { // sets C's environment too
			return err
		}
		defer func() {
			if there {
				_ = os.Setenv(name, before)
			} else {
				_ = os.Unsetenv(name)
			}
		}()
	}
	return f()
}

// Environ returns the process's environment without what withEnvironment adds
// for a moment.
func Environ() []string {
	environment.Lock()
	defer environment.Unlock()
	return os.Environ()
}

// Context is UCX opened with one configuration. Its methods may be called from
// any goroutine, one at a time.
type Context struct {
	c        *C.uam_context
	settings []Setting
	wakeUp   bool
}

// Open opens UCX. checked are settings of libucp itself, which it checks;
// others are settings of its transports and anything else.
func Open(checked, others []Setting, wakeUp, shared bool) (*Context, error) {
	c := &Context{settings: others, wakeUp: wakeUp}
	pairs := make([]*C.char, 0, 2*len(checked)+1)
	for _, s := range checked {
		pairs = append(pairs, C.CString(s.Name), C.CString(s.Value))
	}
	pairs = append(pairs, nil)
	defer func() {
		for _, p := range pairs {
			C.free(unsafe.Pointer(p))
		}
	}()
	// An array of pointers must be C's as well.
	size := C.size_t(len(pairs)) * C.size_t(unsafe.Sizeof(pairs[0]))
	list := (**C.char)(C.malloc(size))
	defer C.free(unsafe.Pointer(list))
	copy(unsafe.Slice(list, len(pairs)), pairs)
	err := withEnvironment(others, func() error {
		var bad C.int
		status := statusError(C.uam_open(list, flag(wakeUp), flag(shared), &c.c, &bad))
		if bad >= 0 {
			return &SettingError{checked[bad], status}
		}
		return status
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// Close gives up the context. Its workers are closed before.
func (c *Context) Close() { C.uam_close_context(c.c) }

// Info returns UCX's description of the context, with its devices.
func (c *Context) Info() string { return takeString(C.uam_context_info(c.c)) }

// Rehearse connects two workers that it makes and ends for this, and returns
// UCX's description of the connection.
func (c *Context) Rehearse(peerErrors bool) (string, error) {
	var info *C.char
	err := withEnvironment(c.settings, func() error {
		return statusError(C.uam_rehearse(c.c, flag(peerErrors), &info))
	})
	return takeString(info), err
}

// KnownVariables returns all variables that the loaded UCX knows, a line
// UCX_NAME=value each.
func KnownVariables() string { return takeString(C.uam_known_variables()) }

func takeString(s *C.char) string {
	defer C.free(unsafe.Pointer(s))
	return C.GoString(s)
}
