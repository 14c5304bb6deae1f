//go:build !cuda || !cgo

package cuda

import "errors"

var errStub = errors.New(
	"built without cgo: install gcc and libc6-dev (Debian's names), then make build")

// The declarations below have the signatures of the real ones and do nothing, because Open
// returns no Context.

//revive:disable:exported

type Context struct{}

func Open(string, int) (*Context, error) { return nil, errStub }

func (c *Context) Description() Description                            { return Description{} }
func (c *Context) NewStream() (Stream, error)                          { return 0, errStub }
func (c *Context) DestroyStream(Stream) error                          { return errStub }
func (c *Context) Synchronize(Stream) error                            { return errStub }
func (c *Context) NewEvent() (Event, error)                            { return 0, errStub }
func (c *Context) DestroyEvent(Event) error                            { return errStub }
func (c *Context) Record(Event, Stream) error                          { return errStub }
func (c *Context) Query(Event) (bool, error)                           { return false, errStub }
func (c *Context) Register([]byte) (Address, error)                    { return 0, errStub }
func (c *Context) Unregister([]byte) error                             { return errStub }
func (c *Context) HostAlloc(int) ([]byte, Address, error)              { return nil, 0, errStub }
func (c *Context) HostFree([]byte) error                               { return errStub }
func (c *Context) AllocRing(int) (Address, int, error)                 { return 0, 0, errStub }
func (c *Context) FreeRing(Address, int) error                         { return errStub }
func (c *Context) Alloc(int) (Address, error)                          { return 0, errStub }
func (c *Context) Free(Address) error                                  { return errStub }
func (c *Context) Export(Address, int) (int, error)                    { return -1, errStub }
func (c *Context) CopyIn(Stream, Address, []byte) error                { return errStub }
func (c *Context) CopyOut(Stream, []byte, Address) error               { return errStub }
func (c *Context) Launch(Stream, Address, int, Address, Address) error { return errStub }
func (c *Context) Close() error                                        { return errStub }
