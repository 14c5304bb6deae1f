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

// Missing is empty because UCX is linked.
const Missing = ""

// Version returns the version of the loaded UCX.
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

// environment guards the process's environment, which UCX reads whenever it opens a context,
// a worker or a device.
var environment sync.Mutex

// withEnvironment runs f while settings are in the environment. UCX's transports read their
// variables only there: ucp_config_modify accepts the names and ignores them (UCX 1.13).
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

// Environ returns the process's environment without the temporary settings of
// withEnvironment.
func Environ() []string {
	environment.Lock()
	defer environment.Unlock()
	return os.Environ()
}

// Context is UCX opened with one configuration. Any goroutine may call its methods, one at a
// time.
type Context struct {
	c        *C.uam_context
	settings []Setting
	wakeUp   bool
}

// Open opens UCX. checked are settings of libucp, which reports invalid ones; others are
// settings of its transports and of anything else.
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
	// The array of pointers must be in C memory as well.
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

// Close frees the context. Destroy its workers first.
func (c *Context) Close() { C.uam_close_context(c.c) }

// Info returns UCX's description of the context, with its devices.
func (c *Context) Info() string { return takeString(C.uam_context_info(c.c)) }

// TrialConnect connects two temporary workers and returns UCX's description of the
// connection.
func (c *Context) TrialConnect(peerErrors bool) (string, error) {
	var info *C.char
	err := withEnvironment(c.settings, func() error {
		return statusError(C.uam_trial_connect(c.c, flag(peerErrors), &info))
	})
	return takeString(info), err
}

// KnownVariables returns all variables of the loaded UCX, one UCX_NAME=value per line.
func KnownVariables() string { return takeString(C.uam_known_variables()) }

func takeString(s *C.char) string {
	defer C.free(unsafe.Pointer(s))
	return C.GoString(s)
}
