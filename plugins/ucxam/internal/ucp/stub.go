//go:build !ucx || !cgo

package ucp

import (
	"context"
	"errors"
	"time"
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

type Worker struct{}

type Arrival struct {
	Token uint64
	Size  uint64
	Peer  uint32
	Kind  Kind
}

func (a *Arrival) Payload() []byte                            { return nil }
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
func (w *Worker) Enqueue(uint32, Kind, uint64, []byte) bool   { return false }
func (w *Worker) Unsent() bool                                { return false }
func (w *Worker) Flush()                                      {}
func (w *Worker) Progress()                                   {}
func (w *Worker) Ready() int                                  { return 0 }
func (w *Worker) Take() *Arrival                              { return nil }

func (w *Worker) ProbeLimit() int { return 0 }

func (w *Worker) Lead(context.Context, int, uint32, int, time.Duration) ([]float64, int, error) {
	return nil, 0, errMissing
}
func (w *Worker) Follow(context.Context, int, int, uint32) (uint32, error) { return 0, errMissing }
