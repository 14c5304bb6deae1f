package hosts

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"transportbench/core/base/files"
)

// Secret is what the hosts of a user share beforehand, in a file that only the user can read. With
// it a ticket may cross a network in clear: its token is then a number that is of no use without
// the secret.
type Secret []byte

const (
	minSecret     = 16 // bytes
	longestSecret = 4096
)

// SecretPath returns where a user's secret is by default: in a home directory that the hosts share,
// all of them find it.
func SecretPath() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "transportbench", "secret"), err
}

// ReadSecret returns the secret in a file, which no other user may read or change.
func ReadSecret(path string) (Secret, error) {
	text, err := files.Read(path, longestSecret)
	var stat unix.Stat_t
	if err == nil {
		err = unix.Stat(path, &stat)
	}
	text = bytes.TrimSpace(text)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w: the ticket of the run is worth nothing without the secret "+
			"that the hosts share; copy that file here from the coordinator's host", path, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case stat.Mode&0o077 != 0 || !files.Trusted(stat.Uid):
		return nil, fmt.Errorf("%s: other users can read it: chmod 600 it, and own it", path)
	case len(text) < minSecret:
		return nil, fmt.Errorf("%s: a secret of %d bytes; write %d random ones at least", path,
			len(text), minSecret)
	}
	return text, nil
}

// MakeSecret is ReadSecret, and makes the file if there is none.
func MakeSecret(path string) (Secret, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := files.MakeDir(filepath.Dir(path)); err != nil {
			return nil, err
		}
		err := files.CreatePrivate(path, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, rand.Text()+rand.Text())
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrExist) { // another run has just made it
			return nil, err
		}
	}
	return ReadSecret(path)
}

// Token returns the token of a run for the number in its public ticket.
func (s Secret) Token(number Token) (t Token) {
	key, err := hkdf.Key(sha256.New, s, number[:], "transportbench ticket", len(t))
	if err != nil {
		panic(err) // only for a length that no hash supports
	}
	copy(t[:], key)
	return t
}
