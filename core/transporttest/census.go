package transporttest

import (
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/goleak"
)

// count is what the process holds at one moment.
type count struct {
	descriptors []string
	goroutines  goleak.Option
}

// census counts what could leak. Only a clause that runs alone may use it.
func census(t *trial) count {
	return count{descriptors(t), goleak.IgnoreCurrent()}
}

// compare fails when there is more than at the census. What a transport closes
// may take a moment to go.
func (before count) compare(t *trial) {
	before.compareGoroutines(t)
	before.compareDescriptors(t)
}

func (before count) compareGoroutines(t *trial) {
	if err := goleak.Find(before.goroutines); err != nil {
		t.fatalf("goroutines are left: %v", err)
	}
}

func (before count) compareDescriptors(t *trial) {
	var left []string
	for range 20 {
		left = slices.DeleteFunc(descriptors(t), func(d string) bool {
			return slices.Contains(before.descriptors, d)
		})
		if len(left) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.fatalf("descriptors are left: %s", strings.Join(left, ", "))
}

// descriptors lists the open ones with what they refer to, save the one that
// reads the list.
func descriptors(t *trial) []string {
	const folder = "/proc/self/fd"
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.fatalf("counting descriptors: %v", err)
	}
	var list []string
	for _, e := range entries {
		if target, err := os.Readlink(folder + "/" + e.Name()); err == nil {
			list = append(list, e.Name()+" "+target)
		}
	}
	return list
}
