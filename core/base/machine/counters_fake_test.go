package machine

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fakePerf is a kernel whose processor has some of the events and a number of counters, which other
// programs use for part of the time.
type fakePerf struct {
	lacks []string
	deny  error // without userOnly
	fits  int   // events in a group; 0 is any
	fail  error // of reading
	short bool

	opened  map[int]string
	leaders map[int]int // fd to its leader
	next    int
	// enabled and running apply to every group; values are by event.
	enabled, running uint64
	values           map[string]uint64
	starving         string // the leader of the group that is never scheduled
}

func newFakePerf() *fakePerf {
	return &fakePerf{opened: map[int]string{}, leaders: map[int]int{}, next: 100,
		values: map[string]uint64{}}
}

func (k *fakePerf) open(event hardwareEvent, leader int, userOnly bool) (int, error) {
	switch {
	case k.deny != nil && !userOnly:
		return -1, k.deny
	case slices.Contains(k.lacks, event.name):
		return -1, unix.ENOENT
	case leader >= 0 && k.fits > 0 && len(k.group(leader)) >= k.fits:
		return -1, unix.EINVAL
	}
	k.next++
	k.opened[k.next] = event.name
	k.leaders[k.next] = k.next
	if leader >= 0 {
		k.leaders[k.next] = leader
	}
	return k.next, nil
}

// group has a leader's descriptors in the order of opening.
func (k *fakePerf) group(leader int) []int {
	var fds []int
	for fd, l := range k.leaders {
		if l == leader {
			fds = append(fds, fd)
		}
	}
	slices.Sort(fds)
	return fds
}

// read writes the layout of PERF_FORMAT_GROUP with both times.
func (k *fakePerf) read(fd int, buffer []byte) (int, error) {
	if k.fail != nil {
		return 0, k.fail
	}
	group, running := k.group(fd), k.running
	if k.opened[fd] == k.starving {
		running = 0
	}
	var b []byte
	for _, word := range []uint64{uint64(len(group)), k.enabled, running} {
		b = binary.NativeEndian.AppendUint64(b, word)
	}
	for _, member := range group {
		b = binary.NativeEndian.AppendUint64(b, k.values[k.opened[member]])
	}
	if k.short {
		b = b[:8]
	}
	return copy(buffer, b), nil
}

func (k *fakePerf) close(fd int) error {
	delete(k.opened, fd)
	delete(k.leaders, fd)
	return nil
}

func (k *fakePerf) count(enabled, running uint64, values map[string]uint64) {
	k.enabled, k.running, k.values = enabled, running, values
}

func TestCountersOfAFakeKernel(t *testing.T) {
	k := newFakePerf()
	c, err := openCounters(k, "1")
	require.NoError(t, err)
	require.False(t, c.UserOnly())
	require.Len(t, c.groups, 4)

	k.count(1000, 1000, map[string]uint64{"cycles": 300, "instructions": 600, "cache_misses": 7,
		"llc_load_misses": 2})
	counts, err := c.Read()
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"cycles": 300, "instructions": 600, "branch_misses": 0,
		"cache_references": 0, "cache_misses": 7, "l1d_loads": 0, "l1d_load_misses": 0,
		"llc_loads": 0, "llc_load_misses": 2}, counts)

	// The group counted for half of the next interval, so its counts are doubled.
	k.count(3000, 2000, map[string]uint64{"cycles": 400, "instructions": 600, "cache_misses": 8,
		"llc_load_misses": 2})
	counts, err = c.Read()
	require.NoError(t, err)
	require.Equal(t, uint64(500), counts["cycles"])
	require.Equal(t, uint64(9), counts["cache_misses"])

	require.NoError(t, c.Close())
	require.Empty(t, k.opened, "every descriptor is closed, the probe's too")
	_, err = c.Read()
	require.Error(t, err)
}

func TestCountersWithoutATurnAreLeftOut(t *testing.T) {
	k := newFakePerf()
	c, err := openCounters(k, "1")
	require.NoError(t, err)
	k.starving = "llc_loads"
	k.count(1000, 1000, map[string]uint64{"cycles": 300})
	counts, err := c.Read()
	require.NoError(t, err)
	require.Contains(t, counts, "cycles")
	require.NotContains(t, counts, "llc_load_misses")

	k.count(2000, 1000, map[string]uint64{"cycles": 300}) // nobody had one
	_, err = c.Read()
	require.ErrorIs(t, err, errNotScheduled)
	require.ErrorContains(t, err, "nmi_watchdog")
}

func TestCountersOfPoorProcessors(t *testing.T) {
	k := newFakePerf()
	k.lacks = []string{"branch_misses", "llc_loads", "llc_load_misses"}
	k.deny = unix.EACCES
	k.fits = 1
	c, err := openCounters(k, "2")
	require.NoError(t, err)
	require.True(t, c.UserOnly(), "the kernel allows no more")
	require.Len(t, c.groups, 6, "each in a separate group")
	k.count(1, 1, map[string]uint64{"instructions": 5})
	counts, err := c.Read()
	require.NoError(t, err)
	require.Len(t, counts, 6)
	require.Equal(t, uint64(5), counts["instructions"])
	require.NoError(t, c.Close())
}

func TestCountersRefused(t *testing.T) {
	none := newFakePerf()
	for _, events := range hardwareEvents {
		for _, e := range events {
			none.lacks = append(none.lacks, e.name)
		}
	}
	_, err := openCounters(none, "1")
	require.ErrorContains(t, err, "no performance monitoring unit")

	denied := newFakePerf()
	denied.deny, denied.lacks = unix.EPERM, []string{"cycles"}
	_, err = openCounters(denied, "3")
	require.Error(t, err)
	require.Empty(t, denied.opened)

	broken := newFakePerf()
	c, err := openCounters(broken, "1")
	require.NoError(t, err)
	broken.fail = unix.EIO
	_, err = c.Read()
	require.ErrorIs(t, err, unix.EIO)
	broken.fail, broken.short = nil, true
	_, err = c.Read()
	require.ErrorContains(t, err, "returned 8 bytes")
}

// TestInheritedCounters reads what the kernel gives for an event that threads and processes
// inherit: its value, and the times.
func TestInheritedCounters(t *testing.T) {
	var fds [2]int
	require.NoError(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	t.Cleanup(func() { require.NoError(t, unix.Close(fds[1])) })
	var kernel inheritedPerf
	_, err := kernel.open(hardwareEvents[0][0], fds[0], false)
	require.ErrorIs(t, err, unix.EINVAL, "groups are not inherited")

	var text []byte
	for _, word := range []uint64{700, 1000, 500} { // it was scheduled for half of the time
		text = binary.NativeEndian.AppendUint64(text, word)
	}
	_, err = unix.Write(fds[1], text)
	require.NoError(t, err)
	group := &counterGroup{}
	group.add("cycles", fds[0])
	fake := newFakePerf()
	other, err := openCounters(fake, "1")
	require.NoError(t, err)
	fake.count(1, 1, map[string]uint64{"cycles": 11, "instructions": 5})
	all := ProcessCounters{{kernel: kernel, groups: []*counterGroup{group}}, other}
	counts, err := all.Read()
	require.NoError(t, err)
	require.EqualValues(t, 1400+11, counts["cycles"], "the sum of the threads")
	require.EqualValues(t, 5, counts["instructions"])

	_, err = unix.Write(fds[1], text[:8])
	require.NoError(t, err)
	_, err = all.Read()
	require.ErrorContains(t, err, "returned 8 bytes instead of 32")
	require.NoError(t, all.Close())
	require.Empty(t, fake.opened)
}

func TestMigrations(t *testing.T) {
	require.Equal(t, uint64(42), migrations("daemon (12, #threads: 3)\n-----\nse.nr_migrations   "+
		"                          :                   42\nnr_switches : 7\n"))
	require.Zero(t, migrations(""), "a kernel without the statistics")
	require.Zero(t, migrations("se.nr_migrations : many"))
}
