package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/viper"

	"transportbench/core/base/printable"
	"transportbench/core/lab/store/jsondoc"
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
		text := strings.TrimPrefix(printable.Joined(err), "While parsing config: ")
		// the errors follow
		return nil, errors.New(strings.TrimPrefix(text, "yaml: unmarshal errors:; "))
	}
	return v.AllSettings(), nil
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
	if d.format == "json" { // the decoders of the other formats refuse a key twice themselves
		if _, err := jsondoc.New(text); err != nil {
			return err
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

// exceedsDepth reports whether a value has more than that many levels of maps and lists.
func exceedsDepth(value any, levels int) bool {
	var children []any
	switch value := value.(type) {
	case map[string]any:
		children = slices.Collect(maps.Values(value))
	case map[any]any:
		children = slices.Collect(maps.Values(value))
	case []any:
		children = value
	}
	return levels < 0 || slices.ContainsFunc(children,
		func(v any) bool { return exceedsDepth(v, levels-1) })
}
