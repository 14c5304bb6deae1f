//go:build !ofi || !cgo

package fi

import (
	"context"
	"errors"
	"time"

	"transportbench/core/fabric/amlib"
)

// Missing names what a build with libfabric needs.
const Missing = "built without libfabric: install libfabric-dev, pkg-config and gcc (Debian's " +
	"names), then make build"

var errMissing = errors.New(Missing)

// The declarations below have the signatures of the real ones and do nothing, because NewList
// returns no List.

//revive:disable:exported

func Version() string { return "" }
func ProcessDied()    {}

type List struct{ Interfaces []Interface }

func NewList(string) (*List, error)          { return nil, errMissing }
func (l *List) Close()                       {}
func (l *List) Open(_ int) (*Context, error) { return nil, errMissing }

type Context struct{}

func (c *Context) Close() {}
func (c *Context) NewWorker(WorkerConfig, uint64, string) (*Worker, error) {
	return nil, errMissing
}

type Worker struct{ amlib.Queue }

func (w *Worker) Address() []byte                     { return nil }
func (w *Worker) Descriptor() int                     { return -1 }
func (w *Worker) Connect(int, uint64, []byte) error   { return errMissing }
func (w *Worker) Cut(int)                             {}
func (w *Worker) FailReads(int)                       {}
func (w *Worker) BeginClose()                         {}
func (w *Worker) Drain(int) int                       { return 0 }
func (w *Worker) Destroy()                            {}
func (w *Worker) Arm() bool                           { return false }
func (w *Worker) Counts() Counts                      { return Counts{} }
func (w *Worker) Registered() (uint64, time.Duration) { return 0, 0 }

func (w *Worker) Lead(context.Context, int, uint32, int, time.Duration) ([]float64, error) {
	return nil, errMissing
}
func (w *Worker) Follow(context.Context, int, int, uint32) (uint32, error) { return 0, errMissing }
