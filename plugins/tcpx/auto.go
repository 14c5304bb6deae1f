package tcpx

import (
	"fmt"
	"strings"
)

// modeAuto takes hardware where there is some.
const modeAuto = "auto"

// resolveMode finds the mode of a name. With auto it is the first, from the one with the
// most hardware on, that can be opened here, and what it took goes into autoNote.
func (s *settings) resolveMode(name string) {
	var reasons []string
	for i := len(modes) - 1; i >= 0; i-- {
		m := &modes[i]
		if name != modeAuto && name != m.name {
			continue
		}
		s.mode = m
		if name != modeAuto {
			return
		}
		err := m.available(s)
		if err == nil {
			break
		}
		reasons = append(reasons, fmt.Sprint(err))
	}
	s.autoNote = s.mode.name
	if len(reasons) > 0 {
		s.autoNote += ", since " + strings.Join(reasons, "; ")
	}
}
