package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Backing is where a segment's memory comes from.
type Backing string

// The backings of a segment.
const (
	Memfd Backing = "memfd" // anonymous; gone with its last process
	Named Backing = "named" // a file in /dev/shm; gone with Unlink
)

// NamedDir holds the segments of backing Named.
const NamedDir = "/dev/shm"

// Ref says how another process of this host reaches a segment.
type Ref struct {
	PID  int    `json:"pid,omitempty"` // of the owner, with FD
	FD   int    `json:"fd,omitempty"`
	Name string `json:"name,omitempty"` // under NamedDir
	Size int    `json:"size"`
}

// BootID says which host, and which start of it, this is: segments reach no further.
func BootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// Segment is one mapping. The process that created it and those that opened it
// hold the same memory.
type Segment struct {
	memory []byte
	fd     int
	ref    Ref
}

// seals keep a segment's size, and the seals themselves, as they are.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Create makes a segment of size bytes, all zero. label shows up in
// /proc/PID/maps. A named segment takes all its memory at once, so that a full
// /dev/shm is an error here and not a SIGBUS later; a memfd takes it as it is
// touched.
func Create(label string, size int, backing Backing) (*Segment, error) {
	switch backing {
	case Memfd:
		fd, err := unix.MemfdCreate(label, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			return nil, fmt.Errorf("creating shared memory: memfd_create: %w", err)
		}
		ref := Ref{PID: os.Getpid(), FD: fd, Size: size}
		if err := unix.Ftruncate(fd, int64(size)); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("creating shared memory of %d bytes: ftruncate: %w", size, err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("sealing shared memory: %w", err)
		}
		return mapSegment(fd, ref)
	case Named:
		return createNamed(label, size)
	default:
		return nil, fmt.Errorf("%q is not a backing of shared memory", backing)
	}
}

func createNamed(label string, size int) (*Segment, error) {
	file, err := os.CreateTemp(NamedDir, label+"-*")
	if err != nil {
		return nil, fmt.Errorf("creating shared memory: %w", err)
	}
	defer file.Close()
	give := func(err error) (*Segment, error) {
		os.Remove(file.Name())
		return nil, err
	}
	if err := unix.Fallocate(int(file.Fd()), 0, 0, int64(size)); err != nil {
		if errors.Is(err, unix.ENOSPC) {
			return give(fmt.Errorf("%s has no room for %d bytes: free some of it or enlarge it with `mount -o remount,size=...`: %w", NamedDir, size, err))
		}
		return give(fmt.Errorf("creating shared memory %s: fallocate: %w", file.Name(), err))
	}
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return give(fmt.Errorf("creating shared memory %s: %w", file.Name(), err))
	}
	s, err := mapSegment(fd, Ref{Name: filepath.Base(file.Name()), Size: size})
	if err != nil {
		return give(err)
	}
	return s, nil
}

// Open maps a segment that another process, or this one, created. The caller
// checks what is in it: a Ref is only a claim.
func Open(ref Ref) (*Segment, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", ref.PID, ref.FD)
	if ref.Name != "" {
		if ref.Name != filepath.Base(ref.Name) || strings.HasPrefix(ref.Name, ".") {
			return nil, fmt.Errorf("mapping shared memory: %q is not a plain file name", ref.Name)
		}
		path = filepath.Join(NamedDir, ref.Name)
	}
	// O_NONBLOCK: the descriptor that a Ref claims might be a FIFO.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("mapping shared memory %s: %w: the peer runs as another user, or /proc is closed to this one; run all ranks as one user, with the named backing where /proc stays closed", path, err)
	case err != nil:
		return nil, fmt.Errorf("mapping shared memory %s: %w", path, err)
	}
	if err := checkFile(fd, ref); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mapping shared memory %s: %w", path, err)
	}
	return mapSegment(fd, ref)
}

// checkFile refuses a file that could shrink while it is mapped, which would
// turn a load into a SIGBUS. A named file cannot be sealed; its size is checked
// once.
func checkFile(fd int, ref Ref) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || ref.Size <= 0 || stat.Size != int64(ref.Size) {
		return fmt.Errorf("it is not a segment of %d bytes", ref.Size)
	}
	if ref.Name == "" {
		got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		if err != nil || got&seals != seals {
			return errors.New("it is not sealed against resizing")
		}
	}
	return nil
}

// mapSegment takes fd over.
func mapSegment(fd int, ref Ref) (*Segment, error) {
	memory, err := unix.Mmap(fd, 0, ref.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mapping shared memory of %d bytes: mmap: %w", ref.Size, err)
	}
	return &Segment{memory: memory, fd: fd, ref: ref}, nil
}

// Bytes is the shared memory, page aligned. It must not be touched after Close:
// that is a fault which no recover catches. The race detector does not see it.
func (s *Segment) Bytes() []byte { return s.memory }

// Ref says how other processes reach the segment, as long as its owner has it
// open (Memfd) or has not unlinked it (Named).
func (s *Segment) Ref() Ref { return s.ref }

// Unlink removes the name of a named segment; mappings stay. It is idempotent.
func (s *Segment) Unlink() error {
	if s.ref.Name == "" {
		return nil
	}
	err := os.Remove(filepath.Join(NamedDir, s.ref.Name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Close unmaps. It is idempotent and does not unlink.
func (s *Segment) Close() error {
	if s.memory == nil {
		return nil
	}
	err := errors.Join(unix.Munmap(s.memory), unix.Close(s.fd))
	s.memory = nil
	return err
}
