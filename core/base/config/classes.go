package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"transportbench/core/fabric/suggest"
)

// Class is a class of traffic: some clients of each calling rank with a load of their own.
type Class struct {
	Name string
	Size Size // of a value
	// Rate is the open-loop load of all clients of the class together; 0 is a closed loop.
	Rate     Rate
	InFlight int
	Clients  int // of each calling rank
	// Objective is the time within which operations should be answered; 0 is none. For an open loop
	// it is a response time.
	Objective Duration
}

// Classes are the classes of traffic of a load, written
// "bulk:1MiB,rate=500;rpc:64B,in-flight=1,slo=50us". Without any, all clients have the same load.
type Classes []Class

const (
	// MaxClasses is the largest number of classes.
	MaxClasses = 8
	// openInFlight is the number of calls in flight of a class with a rate, unless it is given.
	openInFlight = 16
	longestClass = 16 // bytes of a name
)

func classOptions() []string { return []string{"rate", "in-flight", "clients", "slo"} }

func (c Class) String() string {
	text := c.Name + ":" + c.Size.String()
	if c.Rate != 0 {
		text += ",rate=" + c.Rate.String()
	}
	text += ",in-flight=" + strconv.Itoa(c.InFlight)
	if c.Clients != 1 {
		text += ",clients=" + strconv.Itoa(c.Clients)
	}
	if c.Objective != 0 {
		text += ",slo=" + c.Objective.String()
	}
	return text
}

func (l Classes) String() string {
	if len(l) == 0 {
		return none
	}
	parts := make([]string, len(l))
	for i, c := range l {
		parts[i] = c.String()
	}
	return strings.Join(parts, ";")
}

// Set parses the format of String.
func (l *Classes) Set(text string) error {
	*l = nil
	if text == "" || text == none {
		return nil
	}
	for item := range strings.SplitSeq(text, ";") {
		c, err := parseClass(strings.TrimSpace(item))
		if err != nil {
			return err
		}
		*l = append(*l, c)
	}
	return nil
}

func parseClass(text string) (Class, error) {
	head, rest, more := strings.Cut(text, ",")
	name, size, sized := strings.Cut(head, ":")
	c := Class{Name: strings.TrimSpace(name), Clients: 1}
	if !sized {
		return c,
			fmt.Errorf(
				"%q is not a class such as bulk:1MiB,rate=500 or rpc:64B,in-flight=1,slo=50us",
				shorten(text))
	}
	if err := c.Size.Set(strings.TrimSpace(size)); err != nil {
		return c, fmt.Errorf("class %s: %w", shorten(name), err)
	}
	for more {
		var item string
		item, rest, more = strings.Cut(rest, ",")
		key, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		var err error
		switch key {
		case "rate":
			err = c.Rate.Set(value)
		case "in-flight":
			c.InFlight, err = wholeNumber(value)
		case "clients":
			c.Clients, err = wholeNumber(value)
		case "slo":
			if err = c.Objective.UnmarshalText([]byte(value)); err != nil {
				err = fmt.Errorf("%q is not a duration such as 50us", shorten(value))
			} else if c.Objective <= 0 {
				err = fmt.Errorf("%q is no time; leave the objective out, or use one such as 50us",
					shorten(value))
			}
		default:
			err = fmt.Errorf("%q is not one of %s%s", shorten(key),
				strings.Join(classOptions(), ", "), suggest.For(key, classOptions()))
		}
		if err != nil {
			return c, fmt.Errorf("class %s: %s: %w", shorten(name), shorten(key), err)
		}
	}
	if c.InFlight == 0 {
		if c.InFlight = 1; c.Rate != 0 {
			c.InFlight = openInFlight
		}
	}
	return c, nil
}

func wholeNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a whole number from 1", shorten(text))
	}
	return n, nil
}

// MarshalText implements [encoding.TextMarshaler].
func (l Classes) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (l *Classes) UnmarshalText(text []byte) error { return l.Set(string(text)) }

// Totals returns the clients of a rank, and the largest number of calls in flight and the largest
// size of any class.
func (l Classes) Totals() (clients, inFlight int, size Size) {
	for _, c := range l {
		clients, inFlight, size = clients+c.Clients, max(inFlight, c.InFlight), max(size, c.Size)
	}
	return clients, inFlight, size
}

// Open reports whether a class is an open loop.
func (l Classes) Open() bool {
	return slices.ContainsFunc(l, func(c Class) bool { return c.Rate != 0 })
}

// CallsInFlight returns the number of calls that all clients together may have in flight.
func (c *Config) CallsInFlight() int {
	if len(c.Classes) == 0 {
		ranks := c.CallingRanks()
		m := c.Traffic.Matrix()
		for rank := range m {
			if m.Share(rank) == 0 {
				ranks--
			}
		}
		return ranks * c.Clients * c.InFlight
	}
	calls := 0
	for _, class := range c.Classes {
		calls += class.Clients * class.InFlight
	}
	return calls * c.CallingRanks()
}

// ClassOf returns the index of the class of a client of a rank, or -1 without classes.
func (c *Config) ClassOf(client int) int {
	for i, class := range c.Classes {
		if client >= 0 && client < class.Clients {
			return i
		}
		client -= class.Clients
	}
	return -1
}

// OfClient returns the load of one client of a rank: the configuration with the values of its
// class. Its Clients are those of the class, which share the rate.
func (c *Config) OfClient(client int) Config {
	own := *c
	own.Classes = nil
	if i := c.ClassOf(client); i >= 0 {
		class := c.Classes[i]
		own.ValueSize, own.InFlight = FixedSize(class.Size), class.InFlight
		own.Rate, own.Clients = class.Rate, class.Clients
	}
	return own
}

// checkClasses checks the classes of traffic against the options that they replace.
func checkClasses(c *Config) *Error {
	if len(c.Classes) == 0 {
		return nil
	}
	wrong := func(format string, args ...any) *Error {
		return &Error{"class", fmt.Sprintf(format, args...)}
	}
	if len(c.Classes) > MaxClasses {
		return wrong("%d classes are too many; use at most %d", len(c.Classes), MaxClasses)
	}
	var names []string
	for _, class := range c.Classes {
		switch {
		case class.Name == "" || len(class.Name) > longestClass ||
			strings.Trim(class.Name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
			return wrong("%q is not a name of at most %d small letters, digits and underscores",
				shorten(class.Name), longestClass)
		case slices.Contains(names, class.Name):
			return wrong("%s is given twice; use other names", class.Name)
		case class.Rate != 0 && !class.Rate.Offers() || class.Rate < 0:
			return wrong("%s: the rate %v is not that of an open loop; use a number of op/s, or "+
				"leave it out", class.Name, class.Rate)
		case class.Objective < 0 || class.Objective > Duration(time.Minute):
			return wrong("%s: slo %v is out of range (0s to 1m)", class.Name, class.Objective)
		case class.Clients < 1 || class.InFlight < 1 || class.InFlight > MaxInFlight ||
			class.Size < 0 || class.Size > MaxValueSize:
			return wrong("%s: clients, in-flight or the size is out of range", class.Name)
		}
		names = append(names, class.Name)
	}
	clients, inFlight, size := c.Classes.Totals()
	const own = "each class has its own; leave it out"
	switch {
	case c.Service == ServiceStore:
		return &Error{"service", "classes of traffic have sizes of their own, which a store " +
			"would mix; use --service echo or sink, or leave it out"}
	case c.Clients != clients:
		return &Error{"clients", own}
	case c.InFlight != inFlight:
		return &Error{"in-flight", own}
	case c.ValueSize.Min() != int(size) || c.ValueSize.Max() != int(size):
		return &Error{"value-size", own}
	case c.Rate != 0:
		return &Error{"rate", own}
	case len(c.Pattern) > 0:
		return &Error{"pattern", "classes of traffic have no iterations; leave one of them out"}
	}
	return nil
}
