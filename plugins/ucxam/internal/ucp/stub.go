//go:build !ucx || !cgo

package ucp

import (
	"context"
	"errors"
	"time"

	"transportbench/core/fabric/amlib"
)

// Missing names what a build with UCX needs.
const Missing = "built without UCX: install libucx-dev, pkg-config and gcc (Debian's names), " +
	"then make build"

var errMissing = errors.New(Missing)

// The declarations below have the signatures of the real ones and do nothing, because Open
// returns no Context.

//revive:disable:exported

func Version() string        { return "" }
func Environ() []string      { return nil }
func KnownVariables() string { return "" }

type Context struct{}

func Open(_, _ []Setting, _, _ bool) (*Context, error) { return nil, errMissing }
func (c *Context) Close()                              {}
func (c *Context) Info() string                        { return "" }
func (c *Context) TrialConnect(bool) (string, error)   { return "", errMissing }
func (c *Context) NewWorker(WorkerConfig, uint64) (*Worker, error) {
	return nil, errMissing
}

type Worker struct{ amlib.Queue }

func (w *Worker) Address() []byte                             { return nil }
func (w *Worker) Descriptor() int                             { return -1 }
func (w *Worker) Connect(int, uint64, []byte) (string, error) { return "", errMissing }
func (w *Worker) Cut(int)                                     {}
func (w *Worker) BeginClose()                                 {}
func (w *Worker) Drain(int) int                               { return 0 }
func (w *Worker) Destroy()                                    {}
func (w *Worker) Arm() bool                                   { return false }
func (w *Worker) Counts() Counts                              { return Counts{} }
func (w *Worker) Registered() (uint64, time.Duration)         { return 0, 0 }
func (w *Worker) ProbeLimit() int                             { return 0 }

func (w *Worker) Lead(context.Context, int, uint32, int, time.Duration) ([]float64, error) {
	return nil, errMissing
}
func (w *Worker) Follow(context.Context, int, int, uint32) (uint32, error) { return 0, errMissing }
