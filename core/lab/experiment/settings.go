package experiment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/viper"
)

// The bounds of a file of settings. A sweep has five levels. Viper takes time for the square of the
// depth and more, and the parser of TOML overflows the stack at a megabyte of brackets.
const (
	maxLevels = 32
	maxTOML   = 16 << 10
)

// ReadSettings reads text in one of the formats of viper, such as "yaml". Its error is one line.
func ReadSettings(format string, text []byte) (map[string]any, error) {
	if format == "toml" && len(text) > maxTOML {
		return nil, fmt.Errorf("it has more than %d KiB, the limit for TOML; use YAML", maxTOML>>10)
	}
	v := viper.NewWithOptions(viper.KeyDelimiter("\x00"),
		viper.WithDecoderRegistry(flatRegistry{viper.NewCodecRegistry()}))
	v.SetConfigType(format)
	if err := v.ReadConfig(bytes.NewReader(text)); err != nil {
		text := strings.TrimPrefix(err.Error(), "While parsing config: ")
		// the errors follow
		return nil, errors.New(oneLine(strings.TrimPrefix(text, "yaml: unmarshal errors:")))
	}
	return v.AllSettings(), nil
}

// oneLine joins the lines of an error.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}

// flatRegistry has decoders that refuse deep values.
type flatRegistry struct{ viper.DecoderRegistry }

func (r flatRegistry) Decoder(format string) (viper.Decoder, error) {
	d, err := r.DecoderRegistry.Decoder(format)
	return flatDecoder{d, format}, err
}

type flatDecoder struct {
	viper.Decoder
	format string
}

func (d flatDecoder) Decode(text []byte, values map[string]any) error {
	if d.format == "json" {
		if key := keyTwice(json.NewDecoder(bytes.NewReader(text))); key != "" {
			return fmt.Errorf("key %q already defined", key)
		}
	}
	if err := d.Decoder.Decode(text, values); err != nil {
		return err
	}
	if exceedsDepth(values, maxLevels) {
		clear(values)
		return fmt.Errorf("it has more than %d levels", maxLevels)
	}
	return nil
}

// keyTwice returns a key that an object of the next value of JSON has twice, or "". The decoders of
// the other formats refuse it themselves.
func keyTwice(d *json.Decoder) string {
	type object struct {
		keys  map[string]bool // nil for a list
		value bool            // the next token is the value of a key
	}
	var open []object
	for {
		token, err := d.Token()
		if err != nil {
			return "" // the decoder that follows says what is wrong
		}
		if key, is := token.(string); is && len(open) > 0 {
			if in := &open[len(open)-1]; in.keys != nil && !in.value {
				if in.keys[key] {
					return key
				}
				in.keys[key], in.value = true, true
				continue
			}
		}
		switch token {
		case json.Delim('{'):
			open = append(open, object{keys: map[string]bool{}})
			continue
		case json.Delim('['):
			open = append(open, object{})
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			return ""
		}
		open[len(open)-1].value = false
	}
}

// exceedsDepth reports whether a value has more than that many levels of maps and lists.
func exceedsDepth(value any, levels int) bool {
	if levels < 0 {
		return true
	}
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			if exceedsDepth(v, levels-1) {
				return true
			}
		}
	case map[any]any:
		for _, v := range value {
			if exceedsDepth(v, levels-1) {
				return true
			}
		}
	case []any:
		for _, v := range value {
			if exceedsDepth(v, levels-1) {
				return true
			}
		}
	}
	return false
}
