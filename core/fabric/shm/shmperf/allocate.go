package shmperf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/arena"
	"transportbench/core/transport"
)

// hugePage is the size of the huge pages that are tried.
const hugePage = 2 << 20

func freeHugePages() int { return shm.Meminfo("HugePages_Free:") }

// checkHugePages reports that the readings with huge pages are missing if none are free.
func (b *bench) checkHugePages(benchmark string) error {
	if freeHugePages() > 0 {
		return nil
	}
	return b.report(transport.Measurement{Name: benchmark + "/hugepages",
		Note: "no huge pages of 2 MiB are free; sysctl vm.nr_hugepages=N reserves N of them"})
}

// The steps of a segment's life. make is what it takes to have it, and life all of it.
const (
	stepCreate = iota
	stepSize
	stepMap
	stepPopulate
	stepUnmap
	stepUnlink
	steps
)

var stepNames = [steps]string{"create", "size", "map", "populate", "unmap", "unlink"}

// maker makes the files of segments.
type maker struct {
	name   string
	create func() (fd int, err error)
	unlink func() error // besides closing it
	unit   int          // sizes are multiples of it
}

// makers returns what segments can be made of on this machine.
func makers() []maker {
	none := func() error { return nil }
	path := filepath.Join(shm.Dir(), fmt.Sprintf("transportbench-micro-%d", os.Getpid()))
	list := []maker{
		{"memfd", func() (int, error) {
			return unix.MemfdCreate("transportbench-micro",
				unix.MFD_CLOEXEC)
		}, none, 1},
		{"dev-shm", func() (int, error) {
			return unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
		},
			func() error { return unix.Unlink(path) }, 1},
	}
	if freeHugePages() > 0 {
		list = append(list, maker{"hugepages", func() (int, error) {
			return unix.MemfdCreate("transportbench-micro", unix.MFD_CLOEXEC|unix.MFD_HUGETLB|
				unix.MFD_HUGE_2MB)
		}, none, hugePage})
	}
	return list
}

// room returns how many bytes a segment may have: a quarter of what is free.
func (m *maker) room() int {
	room := shm.Meminfo("MemAvailable:") << 10 / 4
	switch m.name {
	case "dev-shm":
		var fs unix.Statfs_t
		if unix.Statfs(shm.Dir(), &fs) != nil {
			return 0
		}
		room = min(room, int(fs.Bavail)*int(fs.Bsize)/4)
	case "hugepages":
		room = freeHugePages() * hugePage
	}
	return room
}

// allocate measures segments, and arenas beside them.
func (b *bench) allocate() error {
	if err := b.checkHugePages("allocate"); err != nil {
		return err
	}
	for _, size := range b.Allocations {
		for _, m := range makers() {
			if size%m.unit != 0 {
				continue
			}
			if room := m.room(); size > room {
				err := b.report(transport.Measurement{Name: "allocate/" + m.name, Size: size,
					Note: fmt.Sprintf(
						"%d MiB do not fit: a segment may take %d MiB of what is free", size>>20,
						room>>20)})
				if err != nil {
					return err
				}
				continue
			}
			if err := b.segments(&m, size); err != nil {
				return fmt.Errorf("%s of %d bytes: %w", m.name, size, err)
			}
		}
		if err := b.arenas(size); err != nil {
			return fmt.Errorf("arena with blocks of %d bytes: %w", size, err)
		}
	}
	return nil
}

// segments makes and removes segments, and times each step.
func (b *bench) segments(m *maker, size int) error {
	var all [steps]times
	var made, lived times
	for start := time.Now(); len(lived) < minTimes || time.Since(start) < b.Duration; {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		took, err := m.live(size)
		if err != nil {
			return err
		}
		sum := 0.0
		for i, d := range took {
			all[i] = append(all[i], float64(d))
			if sum += float64(d); i == stepMap {
				made = append(made, sum)
			}
		}
		lived = append(lived, sum)
	}
	report := func(name string, t times) error {
		r := transport.Measurement{Name: fmt.Sprintf("allocate/%s/%s", m.name, name), Size: size}
		t.fill(&r, 1)
		return b.report(r)
	}
	for i, t := range all {
		if err := report(stepNames[i], t); err != nil {
			return err
		}
	}
	return errors.Join(report("make", made), report("life", lived))
}

// live makes a segment, writes to each of its pages, and removes it. It returns how long the steps
// took.
func (m *maker) live(size int) (took [steps]time.Duration, err error) {
	began := time.Now()
	step := func(i int) {
		now := time.Now()
		took[i], began = now.Sub(began), now
	}
	fd, err := m.create()
	if err != nil {
		return took, fmt.Errorf("create: %w", err)
	}
	step(stepCreate)
	open := true
	defer func() {
		if open {
			err = errors.Join(err, unix.Close(fd), m.unlink())
		}
	}()
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return took, fmt.Errorf("ftruncate: %w", err)
	}
	step(stepSize)
	memory, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return took, fmt.Errorf("mmap: %w", err)
	}
	step(stepMap)
	if err := shm.Populate(memory); err != nil {
		return took, errors.Join(err, unix.Munmap(memory))
	}
	step(stepPopulate)
	if err := unix.Munmap(memory); err != nil {
		return took, fmt.Errorf("munmap: %w", err)
	}
	step(stepUnmap)
	open = false
	err = errors.Join(m.unlink(), unix.Close(fd))
	step(stepUnlink)
	return took, err
}

// allocationBatch is how many allocations of an arena are timed together.
const allocationBatch = 64

// arenas measures allocation and release of blocks in memory that is mapped once.
func (b *bench) arenas(size int) error {
	const blocks = 2 // the memory of blocks is not touched, so it takes none
	segment, err := shm.Create("transportbench-micro", arena.Overhead(blocks)+blocks*size+4096,
		shm.Memfd)
	if err != nil {
		return err
	}
	defer segment.Close()
	memory := segment.Bytes()
	bump, err := arena.NewBump(memory)
	if err != nil {
		return err
	}
	err = b.arena("bump", size, func() error {
		_, err := bump.Allocate(size)
		if errors.Is(err, arena.ErrFull) {
			bump.Reset()
			_, err = bump.Allocate(size)
		}
		return err
	})
	if err != nil {
		return err
	}
	clear(memory[:arena.Overhead(blocks)])
	a, err := arena.Create(memory, blocks, uint32(os.Getpid()))
	if err != nil {
		return err
	}
	return b.arena("size-classes", size, func() error {
		block, err := a.Allocate(size)
		if err != nil {
			return err
		}
		return a.Free(block)
	})
}

func (b *bench) arena(kind string, size int, allocate func() error) error {
	t, err := b.repeat(allocationBatch, allocate)
	if err != nil {
		return err
	}
	m := transport.Measurement{Name: "allocate/arena/" + kind, Size: size,
		Baseline: "allocate/memfd/make"}
	t.fill(&m, allocationBatch)
	return b.report(m)
}
