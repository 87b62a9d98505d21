package owncert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/handshake"
)

// lookEvery is how long a certificate is served before its files are looked at again.
const lookEvery = 10 * time.Second

// Files is a certificate in files, which is for all names. It is read again when the files have changed, and
// what was read before is served on where they are no good. It is safe for concurrent use.
type Files struct {
	o      FileOptions
	ending ending

	mu          sync.Mutex
	certificate *tls.Certificate
	looked      time.Time
	seen        [2]stamp
}

var _ handshake.Source = (*Files)(nil)

// FileOptions are what Files are made with. All are needed.
type FileOptions struct {
	// Certificate is the file of the certificate and those that signed it, Key that of its private
	// key, both as PEM.
	Certificate, Key string
	Names            Names
	// For are names that the certificate has to be for.
	For []string
	Now func() time.Time
	Log *slog.Logger
}

// stamp is how a file is known to have changed.
type stamp struct {
	size     int64
	modified time.Time
}

// OpenFiles reads the files. Its error says which of them is wrong and what to do, and nothing of what is in
// them; a certificate that has ended is served with a warning, since clients may still take it.
func OpenFiles(ctx context.Context, o FileOptions) (*Files, error) {
	f := &Files{o: o}
	seen, err := f.stamps()
	if err != nil {
		return nil, err
	}
	if f.certificate, err = f.read(); err != nil {
		return nil, err
	}
	f.seen, f.looked = seen, o.Now()
	if end := f.certificate.Leaf.NotAfter; end.Before(o.Now()) {
		o.Log.WarnContext(ctx, "the certificate has ended: put another one into its files, which are read again by themselves",
			"file", o.Certificate, "ended", end.UTC().Format(time.RFC3339))
	}
	if info, err := os.Stat(o.Key); err == nil && disk.Exposed(info.Mode()&^groupMode) {
		o.Log.WarnContext(ctx, "everybody on this machine may read the key of the certificate: take that from others (chmod o=)", "file", o.Key)
	}
	return f, nil
}

// groupMode are the rights of a file's group, which systems have for those that serve TLS.
const groupMode fs.FileMode = 0o070

// Owns implements handshake.Source.
func (f *Files) Owns(name string) bool { return f.o.Names.Owns(name) }

// Certificate implements handshake.Source. It is the same for each name: one at which nothing is served is
// told so by HTTP.
func (f *Files) Certificate(ctx context.Context, _ string) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.o.Now()
	if age := now.Sub(f.looked); age >= 0 && age < lookEvery {
		return f.certificate, nil
	}
	f.looked = now
	if end := f.certificate.Leaf.NotAfter; f.ending.soon(f.o.Certificate, f.certificate, now) {
		f.o.Log.WarnContext(ctx, "the certificate ends soon or has ended: put another one into its files, which are read again by themselves",
			"file", f.o.Certificate, "ends", end.UTC().Format(time.RFC3339))
	}
	seen, err := f.stamps()
	if err == nil && seen == f.seen {
		return f.certificate, nil
	}
	var next *tls.Certificate
	if err == nil {
		next, err = f.read()
	}
	if err != nil {
		f.o.Log.WarnContext(ctx, "the files of the certificate have changed and are no good, what was in them is served on", "error", err)
		return f.certificate, nil
	}
	f.certificate, f.seen = next, seen
	f.o.Log.InfoContext(ctx, "another certificate is served", "file", f.o.Certificate, "ends", next.Leaf.NotAfter.UTC().Format(time.RFC3339))
	return next, nil
}

func (f *Files) stamps() (seen [2]stamp, err error) {
	for i, name := range []string{f.o.Certificate, f.o.Key} {
		info, err := lookAt(name)
		if err != nil {
			return seen, err
		}
		seen[i] = stamp{info.Size(), info.ModTime()}
	}
	return seen, nil
}

// maxFileBytes bounds a file: a long chain has some 20 KB.
const maxFileBytes = 1 << 20

// lookAt refuses what cannot be read again and again in a moment, such as a pipe.
func lookAt(name string) (fs.FileInfo, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, unreadable(name, err)
	case !info.Mode().IsRegular():
		return nil, unreadable(name, errNoFile)
	case info.Size() > maxFileBytes:
		return nil, unreadable(name, errLarge)
	}
	return info, nil
}

var (
	errNoFile = errors.New("it is no regular file")
	errLarge  = fmt.Errorf("it has more than %d bytes", maxFileBytes)
)

func unreadable(name string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return fmt.Errorf("%s cannot be read (%w): name the file with the certificate or the key as PEM, for whom the product runs as to read", name, err)
}

func (f *Files) read() (*tls.Certificate, error) { return read(f.o.Certificate, f.o.Key, f.o.For) }

// Check reports what is wrong with a certificate in a file and its key in another, as OpenFiles does, for a caller
// that has nothing else yet. It has to be for all of names.
func Check(certificate, key string, names ...string) error {
	_, err := read(certificate, key, names)
	return err
}

func read(certificate, key string, names []string) (*tls.Certificate, error) {
	var content [2][]byte
	for i, name := range []string{certificate, key} {
		_, err := lookAt(name)
		if err != nil {
			return nil, err
		}
		if content[i], err = os.ReadFile(name); err != nil { //nolint:gosec // G304: the operator's files
			return nil, unreadable(name, err)
		}
	}
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		// Not why: it may have the key in it.
		return nil, fmt.Errorf("%s has no certificate as PEM, or %s is not its private key: write the whole chain into the one, its own certificate first, and its key into the other",
			certificate, key)
	}
	if err := covers(certificate, pair.Leaf, names); err != nil {
		return nil, err
	}
	return &pair, nil
}

// covers refuses a certificate that is not for all of an installation's names.
func covers(in string, its *x509.Certificate, names []string) error {
	for _, name := range names {
		if err := its.VerifyHostname(name); err != nil {
			return fmt.Errorf("the certificate in %s is not for %s, it is for %s: get one that is for all of an installation's names", in, name, namesOf(its))
		}
	}
	return nil
}

func namesOf(c *x509.Certificate) string {
	if len(c.DNSNames) == 0 {
		return "no host name"
	}
	const most = 5
	return fmt.Sprint(c.DNSNames[:min(len(c.DNSNames), most)])
}
