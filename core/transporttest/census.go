package transporttest

import (
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/goleak"
)

// count is what the process holds at one time.
type count struct {
	descriptors []string
	goroutines  goleak.Option
}

// census counts descriptors and goroutines. Only a clause that runs alone may use it.
func census(t *trial) count {
	return count{descriptors(t), goleak.IgnoreCurrent()}
}

// compare fails the clause if there is more than at the census. It waits a moment, because closing
// may take time.
func (before count) compare(t *trial) {
	before.compareGoroutines(t)
	before.compareDescriptors(t)
}

func (before count) compareGoroutines(t *trial) {
	if err := goleak.Find(before.goroutines); err != nil {
		t.Fatalf("goroutines leaked: %v", err)
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
	t.Fatalf("descriptors leaked: %s", strings.Join(left, ", "))
}

// descriptors returns the open descriptors and their targets, except the one that reads the list.
func descriptors(t *trial) []string {
	const folder = "/proc/self/fd"
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatalf("counting descriptors: %v", err)
	}
	var list []string
	for _, e := range entries {
		if target, err := os.Readlink(folder + "/" + e.Name()); err == nil {
			list = append(list, e.Name()+" "+target)
		}
	}
	return list
}
