package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Backing is the kind of memory behind a segment.
type Backing string

// The backings of a segment.
const (
	Memfd Backing = "memfd" // anonymous; freed with its last process
	Named Backing = "named" // a file in /dev/shm; freed after Unlink
)

// Ref tells another process of this host how to open a segment.
type Ref struct {
	PID  int    `json:"pid,omitempty"` // of the owner, with FD
	FD   int    `json:"fd,omitempty"`
	Name string `json:"name,omitempty"` // under NamedDir
	Size int    `json:"size"`
}

// BootID identifies the host and its current boot. Processes with the same BootID can
// share segments.
func BootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// Segment is one process's mapping of shared memory. The creator and every process
// that opens it see the same bytes.
type Segment struct {
	memory []byte
	fd     int
	ref    Ref
}

// seals forbid changes of a segment's size and of its seals.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Create makes a segment of size bytes, all zero. label appears in
// /proc/PID/maps. A named segment allocates all its memory at once, so that a full
// /dev/shm is an error here instead of a SIGBUS later; a memfd allocates pages on
// first touch.
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
		return nil, fmt.Errorf("creating shared memory: backing %q is unknown (%s or %s)", backing,
			Memfd, Named)
	}
}

func createNamed(label string, size int) (*Segment, error) {
	file, err := os.CreateTemp(Dir(), label+"-*")
	if err != nil {
		return nil, fmt.Errorf("creating shared memory: %w", err)
	}
	defer file.Close()
	fail := func(err error) (*Segment, error) {
		os.Remove(file.Name())
		return nil, err
	}
	if err := unix.Fallocate(int(file.Fd()), 0, 0, int64(size)); err != nil {
		if errors.Is(err, unix.ENOSPC) {
			return fail(fmt.Errorf("creating shared memory: %s has no room for %d bytes: free "+
				"some of it or enlarge it with `mount -o remount,size=...`: %w", NamedDir,
				size, err))
		}
		return fail(fmt.Errorf("creating shared memory %s: fallocate: %w", file.Name(), err))
	}
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fail(fmt.Errorf("creating shared memory %s: %w", file.Name(), err))
	}
	s, err := mapSegment(fd, Ref{Name: below(file.Name()), Size: size})
	if err != nil {
		return fail(err)
	}
	return s, nil
}

// Open maps a segment that another process, or this one, created. It checks that ref
// names a segment of that size; the caller must check the contents.
func Open(ref Ref) (*Segment, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", ref.PID, ref.FD)
	if ref.Name != "" {
		if !plain(ref.Name) {
			return nil, fmt.Errorf("mapping shared memory: %q is not a file below %s", ref.Name,
				NamedDir)
		}
		path = filepath.Join(NamedDir, ref.Name)
	}
	// O_NONBLOCK because the descriptor of a false Ref may be a FIFO.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("mapping shared memory %s: %w: the peer runs as another user, or "+
			"/proc is closed to this process; run all ranks as one user, and use the named "+
			"backing if /proc stays closed", path, err)
	case err != nil:
		return nil, fmt.Errorf("mapping shared memory %s: %w", path, err)
	}
	if err := checkFile(fd, ref); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mapping shared memory %s: %w", path, err)
	}
	return mapSegment(fd, ref)
}

// checkFile returns an error if the file could shrink while it is mapped, because a
// load would then raise SIGBUS. A named file cannot be sealed; its size is checked
// once.
func checkFile(fd int, ref Ref) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || ref.Size <= 0 || stat.Size != int64(ref.Size) {
		return fmt.Errorf("the file is not a segment of %d bytes", ref.Size)
	}
	if ref.Name != "" && int(stat.Uid) != os.Geteuid() {
		return errors.New("the file belongs to another user")
	}
	if ref.Name == "" {
		got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		if err != nil || got&seals != seals {
			return errors.New("the segment is not sealed against resizing")
		}
	}
	return nil
}

// mapSegment maps fd and owns it from then on.
func mapSegment(fd int, ref Ref) (*Segment, error) {
	memory, err := unix.Mmap(fd, 0, ref.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mapping shared memory of %d bytes: mmap: %w", ref.Size, err)
	}
	return &Segment{memory: memory, fd: fd, ref: ref}, nil
}

// Bytes returns the shared memory, page aligned. An access after Close is a fault that
// recover cannot catch. The race detector does not see this memory.
func (s *Segment) Bytes() []byte { return s.memory }

// Ref returns how other processes open the segment. It is valid until the owner closes
// (Memfd) or unlinks (Named) the segment.
func (s *Segment) Ref() Ref { return s.ref }

// Populate maps every page of memory for writing, so that later accesses cause no page faults.
// memory begins at a page. Its bytes keep their values, even while another process writes them.
// Populate returns an error if there is not enough memory.
func Populate(memory []byte) error { return populate(memory, unix.Madvise) }

func populate(memory []byte, madvise func(memory []byte, advice int) error) error {
	err := madvise(memory, unix.MADV_POPULATE_WRITE)
	if errors.Is(err, unix.EINVAL) { // a kernel before 5.14
		touch(memory)
		return nil
	}
	if err != nil {
		return fmt.Errorf("populating %d bytes of memory: madvise: %w", len(memory), err)
	}
	return nil
}

// PopulateIfRoom is Populate for memory that a run may not use as a whole, such as rings for the
// worst case. It leaves out what would take more than a quarter of the available memory, so that
// many such areas leave room too. What is left out gets pages when it is touched.
func PopulateIfRoom(memory []byte) error {
	// Reading what is available takes longer than populating less.
	const small = 4 << 20
	if len(memory) > small {
		if len(memory) > Meminfo("MemAvailable:")<<10/4 {
			return nil
		}
	}
	return Populate(memory)
}

// Meminfo returns a number of /proc/meminfo, and 0 if it is unknown. Most are in KiB.
func Meminfo(key string) (n int) {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, key); found {
			_, _ = fmt.Sscan(value, &n)
		}
	}
	return n
}

// HasMemory reports whether every page of the segment has memory, of whichever process.
func (s *Segment) HasMemory() bool {
	const block = 512 // bytes, as stat counts them
	var stat unix.Stat_t
	return unix.Fstat(s.fd, &stat) == nil && stat.Blocks*block >= int64(s.ref.Size)
}

// Unlink removes the name of a named segment; mappings stay valid. It is idempotent.
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

// Close unmaps the segment. It is idempotent and does not unlink.
func (s *Segment) Close() error {
	if s.memory == nil {
		return nil
	}
	err := errors.Join(unix.Munmap(s.memory), unix.Close(s.fd))
	s.memory = nil
	return err
}
