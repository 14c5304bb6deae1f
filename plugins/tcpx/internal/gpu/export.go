package gpu

import (
	"errors"

	"transportbench/plugins/tcpx/internal/cuda"
)

// hostPage is the alignment of exported memory.
const hostPage = 4096

// ErrCopyEngine means that the copy engine was to unpack from GPU memory.
var ErrCopyEngine = errors.New("only the kernel unpacks from GPU memory")

// Export puts bounce memory of size bytes into the GPU, of which the first exported bytes are a
// dmabuf that a NIC can fill. The caller closes the descriptor. Call it once, before Register; the
// memory of that then has what comes through the host, and is copied behind the dmabuf.
func (u *Unpacker) Export(exported, size int) (descriptor int, err error) {
	if u.config.Mode == CopyEngine {
		return -1, ErrCopyEngine
	}
	err = u.call(func() (err error) {
		if u.source, err = u.allocatePages(size); err != nil {
			return err
		}
		u.exported = exported
		descriptor, err = u.device.Export(u.source, exported)
		return err
	})
	return descriptor, err
}

// ExportSource allocates at least size bytes of GPU memory, which are a dmabuf that a NIC can read,
// and belong to the unpacker. The caller closes the descriptor.
func (u *Unpacker) ExportSource(size int) (a cuda.Address, descriptor int, err error) {
	size = (size + hostPage - 1) &^ (hostPage - 1)
	err = u.call(func() (err error) {
		if a, err = u.allocatePages(size); err == nil {
			descriptor, err = u.device.Export(a, size)
		}
		return err
	})
	return a, descriptor, err
}

// allocatePages allocates memory that begins with a page, until the device is closed.
func (u *Unpacker) allocatePages(size int) (cuda.Address, error) {
	a, err := u.device.Alloc(size + hostPage)
	if err != nil {
		return 0, err
	}
	u.pages = append(u.pages, a)
	return (a + hostPage - 1) &^ (hostPage - 1), nil
}

// Fetch copies bytes of the dmabuf to their place in the memory of Register. It blocks until the
// GPU has done all that was submitted before.
func (u *Unpacker) Fetch(source uint32, size int) error {
	return u.Read(u.bounce[source:int(source)+size], u.source+cuda.Address(source))
}

// complete copies the parts of a chunk that came through the host to the bounce memory in the GPU.
func (u *Unpacker) complete(descriptors []cuda.Descriptor, stream cuda.Stream) error {
	for _, d := range descriptors {
		if int(d.Source) < u.exported || d.Length == 0 {
			continue
		}
		if err := u.device.CopyIn(stream, u.source+cuda.Address(d.Source),
			u.bounce[d.Source:uint64(d.Source)+uint64(d.Length)]); err != nil {
			return err
		}
	}
	return nil
}
