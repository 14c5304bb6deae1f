package arena

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/shm"
)

func TestMain(m *testing.M) {
	if fabrictest.RunChild(map[string]fabrictest.Role{churnRole: churnUntilKilled}) {
		return
	}
	os.Exit(m.Run())
}

// create returns an arena on the heap, where the race detector sees it.
func create(t *testing.T, blocks, size int) (*Arena, []byte) {
	t.Helper()
	memory := make([]byte, Overhead(blocks)+size)
	a, err := Create(memory, blocks, 1)
	require.NoError(t, err)
	return a, memory
}

func TestSizes(t *testing.T) {
	a, _ := create(t, 16, 1<<16)
	for _, c := range []struct{ size, class int }{{0, 0}, {1, 0}, {64, 0}, {65, 1}, {128, 1},
		{129, 2}, {4096, 6}, {4097, 7}} {
		require.Equal(t, c.class, classOf(c.size), c.size)
		b, err := a.Allocate(c.size)
		require.NoError(t, err)
		bytes, err := a.bytes(b)
		require.NoError(t, err)
		require.Len(t, bytes, c.size)
		require.Equal(t, unit<<c.class, cap(bytes))
	}
	_, err := a.Allocate(-1)
	require.ErrorIs(t, err, ErrFull)
	_, err = a.Allocate(1 << 17)
	require.ErrorIs(t, err, ErrFull)
	u, err := a.usage()
	require.NoError(t, err)
	require.Equal(t, usage{allocated: 8}, u)
}

func TestBlocksAreUsedAgain(t *testing.T) {
	a, memory := create(t, 4, 4*128)
	var blocks []Block
	for range 4 {
		b, err := a.Allocate(100)
		require.NoError(t, err)
		blocks = append(blocks, b)
	}
	_, err := a.Allocate(100)
	require.ErrorIs(t, err, ErrFull)
	other, err := Open(memory, 2)
	require.NoError(t, err)
	require.ErrorIs(t, other.Free(blocks[0]), ErrNotAllocated, "it is another owner's")
	require.NoError(t, a.Free(blocks[0]))
	require.ErrorIs(t, a.Free(blocks[0]), ErrNotAllocated, "it is free already")
	_, err = a.bytes(blocks[0])
	require.ErrorIs(t, err, ErrNotAllocated)
	_, err = a.Allocate(10)
	require.ErrorIs(t, err, ErrFull, "a freed block has its size for good")
	again, err := other.Allocate(101)
	require.NoError(t, err)
	require.Equal(t, blocks[0].ID, again.ID)
	require.NoError(t, other.Free(again))
	u, err := a.usage()
	require.NoError(t, err)
	require.Equal(t, usage{allocated: 3, free: 1}, u)
}

// What another process writes into the arena is checked before it is used.
func TestCorrupt(t *testing.T) {
	_, err := Open(make([]byte, 1<<16), 1)
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = Create(make([]byte, 64), 1, 1)
	require.ErrorContains(t, err, "want at least")
	a, memory := create(t, 4, 4096)
	_, err = Open(memory, 0)
	require.ErrorContains(t, err, "owner 0")
	b, err := a.Allocate(64)
	require.NoError(t, err)
	shm.Word64(memory, entry(b.ID)+placeOffset).Store(1 << 40)
	_, err = a.bytes(b)
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = a.bytes(Block{ID: b.ID, Size: 65})
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = a.bytes(Block{ID: 99})
	require.ErrorIs(t, err, ErrNotAllocated)
	shm.Word64(memory, listsOffset).Store(77)
	_, err = a.Allocate(64)
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = a.usage()
	require.ErrorIs(t, err, ErrCorrupt)
	shm.Word64(memory, shapeOffset).Store(1 << 20)
	_, err = Open(memory, 1)
	require.ErrorIs(t, err, ErrCorrupt)
}

// churn allocates, marks, checks and frees blocks until stop returns true. It returns an error if
// somebody else has written to a block.
func churn(a *Arena, seed uint64, stop func() bool) error {
	type held struct {
		block Block
		bytes []byte
	}
	random := rand.New(rand.NewPCG(seed, 1))
	var list []held
	check := func(h held) error {
		for _, v := range h.bytes {
			if v != byte(seed) {
				return fmt.Errorf("block %d of owner %d has %d", h.block.ID, seed, v)
			}
		}
		return a.Free(h.block)
	}
	for !stop() {
		if len(list) < 8 && random.IntN(2) == 0 {
			b, err := a.Allocate(1 + random.IntN(400))
			if errors.Is(err, ErrFull) {
				continue
			}
			if err != nil {
				return err
			}
			bytes, err := a.bytes(b)
			if err != nil {
				return err
			}
			for i := range bytes {
				bytes[i] = byte(seed)
			}
			list = append(list, held{b, bytes})
		} else if len(list) > 0 {
			i := random.IntN(len(list))
			if err := check(list[i]); err != nil {
				return err
			}
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
		}
	}
	for _, h := range list {
		if err := check(h); err != nil {
			return err
		}
	}
	return nil
}

// No block belongs to two threads at once, and none is lost.
func TestThreads(t *testing.T) {
	a, memory := create(t, 128, 128*512)
	var working sync.WaitGroup
	for owner := uint32(2); owner < 6; owner++ {
		view, err := Open(memory, owner)
		require.NoError(t, err)
		rounds := 0
		working.Go(func() {
			if err := churn(view, uint64(owner),
				func() bool { rounds++; return rounds > 5000 }); err != nil {
				t.Error(err)
			}
		})
	}
	working.Wait()
	u, err := a.usage()
	require.NoError(t, err)
	require.Zero(t, u.allocated)
	require.Zero(t, u.lost)
	require.Positive(t, u.free)
}

const churnRole = "churn"

type churnConfig struct {
	Ref   shm.Ref
	Owner uint32
}

// churnUntilKilled uses the arena until the process is killed.
func churnUntilKilled(p *fabrictest.Parent) error {
	var c churnConfig
	if err := p.Config(&c); err != nil {
		return err
	}
	s, err := shm.Open(c.Ref)
	if err != nil {
		return err
	}
	a, err := Open(s.Bytes(), c.Owner)
	if err != nil {
		return err
	}
	end := time.Now().Add(time.Minute)
	if err := p.Send("ready"); err != nil {
		return err
	}
	return churn(a, uint64(c.Owner), func() bool { return time.Now().After(end) })
}

// Processes that are killed at any moment leave an arena that works: each takes the blocks that it
// holds along, and loses at most one more.
func TestKilledProcesses(t *testing.T) {
	const blocks = 256
	s, err := shm.Create("arena-test", Overhead(blocks)+blocks*512, shm.Memfd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	a, err := Create(s.Bytes(), blocks, 1)
	require.NoError(t, err)
	const kills = 12
	for owner := uint32(2); owner < 2+kills; owner++ {
		c := fabrictest.Start(t, churnRole, churnConfig{s.Ref(), owner})
		var ready string
		c.Receive(&ready)
		// This process works in the arena meanwhile, for a random number of rounds.
		rounds := rand.IntN(20000)
		require.NoError(t, churn(a, 1, func() bool { rounds--; return rounds < 0 }))
		require.Equal(t, -1, c.Kill(), "it was killed, and ended by nothing else")
	}
	u, err := a.usage()
	require.NoError(t, err)
	require.LessOrEqual(t, u.allocated, kills*8)
	require.LessOrEqual(t, u.lost, kills)
	require.NoError(t, churn(a, 1, func() bool { u.free--; return u.free < -1000 }),
		"it still works")
}

func TestBump(t *testing.T) {
	memory := make([]byte, bumpHeader+256)
	b, err := NewBump(memory)
	require.NoError(t, err)
	other, err := NewBump(memory)
	require.NoError(t, err)
	for range 2 {
		first, err := b.Allocate(1)
		require.NoError(t, err)
		require.Equal(t, bumpHeader, first)
		second, err := other.Allocate(65)
		require.NoError(t, err)
		require.Equal(t, bumpHeader+64, second)
		_, err = b.Allocate(65)
		require.ErrorIs(t, err, ErrFull)
		_, err = b.Allocate(64)
		require.NoError(t, err)
		b.Reset()
	}
	_, err = NewBump(memory[:bumpHeader])
	require.ErrorContains(t, err, "want more than 128")
}

// bytes returns the memory of an allocated block. The error is ErrNotAllocated or ErrCorrupt.
func (a *Arena) bytes(b Block) ([]byte, error) {
	if b.ID == 0 || b.ID > a.entries {
		return nil, ErrNotAllocated
	}
	state := shm.Word64(a.memory, entry(b.ID)+stateOffset).Load()
	if state&0xff != stateAllocated {
		return nil, ErrNotAllocated
	}
	class, place := state>>8&0xff, shm.Word64(a.memory, entry(b.ID)+placeOffset).Load()
	limit := uint64(len(a.blocks)) >> unitShift
	if class >= classes || b.Size < 0 || uint64(b.Size) > unit<<class || place > limit ||
		uint64(1)<<class > limit-place {
		return nil, ErrCorrupt
	}
	at := place << unitShift
	return a.blocks[at : at+uint64(b.Size) : at+unit<<class], nil
}

// usage counts the blocks of an arena.
type usage struct {
	allocated int // in use
	free      int // in lists
	lost      int // neither: taken or returned by a process that was killed, or at this moment
}

// usage walks the arena. It is exact while no thread allocates or frees. The error is ErrCorrupt.
func (a *Arena) usage() (usage, error) {
	var u usage
	used := uint32(shm.Word64(a.memory, usedOffset).Load() >> 32)
	if used > a.entries {
		return u, ErrCorrupt
	}
	for id := uint32(1); id <= used; id++ {
		if shm.Word64(a.memory, entry(id)+stateOffset).Load()&0xff == stateAllocated {
			u.allocated++
		}
	}
	for class := range classes {
		for id := uint32(shm.Word64(a.memory, listsOffset+class*listSize).Load()); id != 0; {
			if id > used || u.free > int(used) {
				return u, ErrCorrupt
			}
			u.free++
			id = shm.Word32(a.memory, entry(id)+nextOffset).Load()
		}
	}
	u.lost = int(used) - u.allocated - u.free
	return u, nil
}
