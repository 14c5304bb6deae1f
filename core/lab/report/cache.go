package report

import (
	"fmt"
	"strings"
	"sync"

	"transportbench/core/lab/result/set"
)

// cache keeps the details of cells whose files have not changed. A nil one
// keeps nothing.
type cache struct {
	mu    sync.Mutex
	known map[string]cached
}

type cached struct {
	detail detail
	brief  brief
	used   bool // since the last sweep
}

func (c *cache) detailOf(s *set.Set, cell *set.Cell) (detail, brief) {
	if c == nil || len(cell.Files) == 0 {
		return detailOf(s, cell)
	}
	key := keyOf(s, cell)
	c.mu.Lock()
	have, found := c.known[key]
	c.mu.Unlock()
	if !found {
		have.detail, have.brief = detailOf(s, cell)
	}
	have.used = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]cached{}
	}
	if have.detail.Problem == "" { // else it may go well the next time
		c.known[key] = have
	}
	return have.detail, have.brief
}

func keyOf(s *set.Set, cell *set.Cell) string {
	var b strings.Builder
	b.WriteString(s.Source)
	for _, f := range cell.Files {
		fmt.Fprintf(&b, "\n%s %d", f.Name, f.Bytes)
	}
	return b.String()
}

// sweep forgets what was not used since the last call.
func (c *cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, have := range c.known {
		if !have.used {
			delete(c.known, key)
			continue
		}
		have.used = false
		c.known[key] = have
	}
}
