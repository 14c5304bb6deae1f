package tcpx

import (
	"fmt"
	"slices"
	"strings"

	"transportbench/core/transport"
)

// modeAuto takes hardware where there is some.
const modeAuto = "auto"

// resolveMode finds the mode of a name, and who unpacks in it. With auto it is the mode
// with the most hardware that has this unpacking and can be opened here.
func (s *settings) resolveMode(name string) error {
	wanted := s.unpack
	var reasons []string
	for i := len(modes) - 1; i >= 0; i-- {
		m := &modes[i]
		if name != modeAuto && name != m.name {
			continue
		}
		s.mode, s.unpack = m, wanted
		if wanted == unpackAuto {
			s.unpack = m.unpacks[0]
		}
		if !slices.Contains(m.unpacks, s.unpack) {
			if name != modeAuto {
				return refuse("unpack", "mode %s has no %s, only %s", m.name, s.unpack, strings.Join(m.unpacks, ", "))
			}
			reasons = append(reasons, fmt.Sprintf("mode %s has no %s", m.name, s.unpack))
			continue
		}
		if name != modeAuto {
			return nil
		}
		err := m.available(s)
		if err == nil {
			s.autoNote = strings.Join(append([]string{m.name}, reasons...), "; ")
			return nil
		}
		reasons = append(reasons, err.Error())
	}
	return refuse("mode", "auto finds none: %s", strings.Join(reasons, "; "))
}

// describe adds what the mode opened to the properties.
func (s *settings) describe(p *transport.Properties) {
	if s.onGPU() {
		p.Libraries = map[string]string{"cuda": s.device.Driver}
		p.Notes["gpu"] = s.device.Device
	}
	if s.mode.name == devmemMode.name {
		p.Notes["interface"] = s.options.String("interface")
		p.Notes["data_port"] = fmt.Sprint(s.dataPort)
	}
	if s.fault != faultNone {
		p.Notes["fault"] = s.fault
	}
	if s.autoNote != "" {
		p.Notes["auto"] = s.autoNote
	}
}
