package set

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/lab/store/result"
)

// flatten derives the options of a cell as text. Sets before 3.0 have them as text alone, and so
// have other cells that have all options.
func (c *Cell) flatten() (err error) {
	switch {
	case c.Config != nil && c.Run == nil:
		c.Run = runOf(c.Config, c.Capacity)
	case c.Config == nil && c.Run != nil:
		c.Config, err = Flatten(c.Run)
		if err == nil && c.Capacity != nil {
			SetShare(c.Config, c.Capacity.Share)
		}
	}
	return err
}

// SetShare makes a share of the capacity the load of flattened options. That of a replay is the
// speed, from which its rate and length follow.
func SetShare(options map[string]string, share float64) {
	name := "rate"
	if options["replay"] != "" {
		name = "speed"
		delete(options, "rate")
		options["duration"] = "0s"
	}
	options[name] = result.FormatShare(share)
}

// runOf is the inverse of [Flatten]. It returns nil if the options are not those of a run, or
// cannot be parsed. An option that is missing is zero if zero is left out, and else has its
// default, as in the versions that did not know it.
func runOf(options map[string]string, capacity *result.Capacity) *config.Config {
	if options["topology"] == "" || options["duration"] == "" {
		return nil
	}
	c := config.Default()
	fields := reflect.ValueOf(&c).Elem()
	for i := range fields.NumField() {
		if strings.Contains(fields.Type().Field(i).Tag.Get("json"), ",omitempty") {
			fields.Field(i).SetZero()
		}
	}
	if err := ParseOptions(&c, options, capacity); err != nil {
		return nil
	}
	return &c
}

// ParseOptions sets the fields of a configuration that options as text name, as [Flatten] writes
// them. The rate may be a share of a capacity. The error is that of the first option that cannot be
// parsed; the others are set.
func ParseOptions(c *config.Config, options map[string]string,
	capacity *result.Capacity) (failed error) {
	c.Options = map[string]string{}
	fields := reflect.ValueOf(c).Elem()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
		text, has := options[name]
		if !has {
			continue
		}
		if name == "rate" && capacity != nil {
			c.Rate = config.Rate(capacity.Rate)
			continue
		}
		quoted, _ := json.Marshal(text) // of a string
		field := fields.Field(i)
		if json.Unmarshal(quoted, field.Addr().Interface()) == nil {
			continue
		}
		if err := json.Unmarshal([]byte(text), field.Addr().Interface()); err != nil {
			failed = cmp.Or(failed, fmt.Errorf("%s: %q: %w", name, text, err))
		}
	}
	for name, value := range options {
		if own, is := strings.CutPrefix(name, ownPrefix); is {
			c.Options[own] = value
		}
	}
	return failed
}
