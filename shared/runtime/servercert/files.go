package servercert

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

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/base/handshake"
)

// checkInterval is the minimum time between two checks of the files.
const checkInterval = 10 * time.Second

// Files is a certificate in files, for all names. It reads the files again when they have changed. If the new
// files are invalid, it continues to serve the previous certificate. It is safe for concurrent use.
type Files struct {
	o      FileOptions
	expiry expiryWarnings

	mu          sync.Mutex
	certificate *tls.Certificate
	checkedAt   time.Time
	loaded      [2]stamp // of the files with certificate
}

var _ handshake.Source = (*Files)(nil)

// FileOptions are the options of Files. All are required.
type FileOptions struct {
	// Certificate is the file with the certificate and the certificates that signed it. Key is the file with its
	// private key. Both are PEM.
	Certificate, Key string
	Names            Names
	// Hosts are the names for which the certificate must be valid.
	Hosts []string
	Now   func() time.Time
	Log   *slog.Logger
}

// stamp identifies a version of a file.
type stamp struct {
	size     int64
	modified time.Time
}

// OpenFiles reads the files. Its error names the file that is wrong, says what to do, and does not repeat the files'
// content. An expired certificate is served with a warning in the log, because some clients accept it. A key that all
// users can read is used with a warning, too.
func OpenFiles(ctx context.Context, o FileOptions) (*Files, error) {
	f := &Files{o: o}
	current, err := f.stamps()
	if err != nil {
		return nil, err
	}
	if f.certificate, err = f.read(); err != nil {
		return nil, err
	}
	f.loaded, f.checkedAt = current, o.Now()
	if end := f.certificate.Leaf.NotAfter; end.Before(o.Now()) {
		o.Log.WarnContext(ctx,
			"the certificate has ended: put another one into its files, which are read again by themselves",
			"file", o.Certificate, "ended", end.UTC().Format(time.RFC3339))
	}
	if info, err := os.Stat(o.Key); err == nil && disk.Exposed(info.Mode()&^groupMode) {
		o.Log.WarnContext(ctx, "everybody on this machine may read the key of the certificate: take that from "+
			"others (chmod o=)", "file", o.Key)
	}
	return f, nil
}

// groupMode are the permissions of a file's group. Some systems
// give the key file to a group of the processes that serve TLS.
const groupMode fs.FileMode = 0o070

// Owns implements handshake.Source.
func (f *Files) Owns(name string) bool { return f.o.Names.Owns(name) }

// Certificate implements handshake.Source. It returns the same certificate for
// each name. If nothing is served at a name, the client gets an HTTP error.
func (f *Files) Certificate(ctx context.Context, _ string) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.o.Now()
	if age := now.Sub(f.checkedAt); age >= 0 && age < checkInterval {
		return f.certificate, nil
	}
	f.checkedAt = now
	if end := f.certificate.Leaf.NotAfter; f.expiry.shouldWarn(f.o.Certificate, f.certificate, now) {
		f.o.Log.WarnContext(ctx, "the certificate ends soon or has ended: put another one into its files, which are read "+
			"again by themselves",
			"file", f.o.Certificate, "ends", end.UTC().Format(time.RFC3339))
	}
	current, err := f.stamps()
	if err == nil && current == f.loaded {
		return f.certificate, nil
	}
	var next *tls.Certificate
	if err == nil {
		next, err = f.read()
	}
	if err != nil {
		f.o.Log.WarnContext(ctx, "the changed files of the certificate are invalid: the previous certificate is still served",
			"error", err)
		return f.certificate, nil
	}
	f.certificate, f.loaded = next, current
	f.o.Log.InfoContext(ctx, "another certificate is served", "file", f.o.Certificate, "ends",
		next.Leaf.NotAfter.UTC().Format(time.RFC3339))
	return next, nil
}

func (f *Files) stamps() (out [2]stamp, err error) {
	for i, name := range []string{f.o.Certificate, f.o.Key} {
		info, err := statRegular(name)
		if err != nil {
			return out, err
		}
		out[i] = stamp{info.Size(), info.ModTime()}
	}
	return out, nil
}

// maxFileBytes is the maximum size of a file. A long certificate chain has some 20 KB.
const maxFileBytes = 1 << 20

// statRegular returns the information about a regular file. It returns an error for other files, such as a pipe:
// reading them could block, or work only once. It also returns an error for files that are larger than maxFileBytes.
func statRegular(name string) (fs.FileInfo, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, unreadableError(name, err)
	case !info.Mode().IsRegular():
		return nil, unreadableError(name, errIrregular)
	case info.Size() > maxFileBytes:
		return nil, unreadableError(name, errLarge)
	}
	return info, nil
}

var (
	errIrregular = errors.New("it is no regular file")
	errLarge     = fmt.Errorf("it has more than %d bytes", maxFileBytes)
)

func unreadableError(name string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return fmt.Errorf("%s cannot be read (%w): name the file with the certificate or the key as PEM, for whom the "+
		"product runs as to read", name, err)
}

func (f *Files) read() (*tls.Certificate, error) { return read(f.o.Certificate, f.o.Key, f.o.Hosts) }

// Check returns the error that OpenFiles would return for a certificate file and its key file. It is
// for callers that do not have the other options yet. The certificate must be valid for all of names.
func Check(certificate, key string, names ...string) error {
	_, err := read(certificate, key, names)
	return err
}

func read(certificate, key string, names []string) (*tls.Certificate, error) {
	var content [2][]byte
	for i, name := range []string{certificate, key} {
		_, err := statRegular(name)
		if err != nil {
			return nil, err
		}
		if content[i], err = os.ReadFile(name); err != nil { //nolint:gosec // G304: the operator's files
			return nil, unreadableError(name, err)
		}
	}
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		// The error does not contain the cause, which may contain parts of the key.
		return nil, fmt.Errorf("%s has no certificate as PEM, or %s is not its private key: write the whole chain into the "+
			"one, its own certificate first, and its key into the other",
			certificate, key)
	}
	if err := checkHosts(certificate, pair.Leaf, names); err != nil {
		return nil, err
	}
	return &pair, nil
}

// checkHosts returns an error for a certificate that is not valid for all of an installation's names.
func checkHosts(source string, cert *x509.Certificate, names []string) error {
	for _, name := range names {
		if err := cert.VerifyHostname(name); err != nil {
			return fmt.Errorf("the certificate in %s is not for %s, it is for %s: get one that is for all of an "+
				"installation's names", source, name, namesOf(cert))
		}
	}
	return nil
}

func namesOf(c *x509.Certificate) string {
	if len(c.DNSNames) == 0 {
		return "no host name"
	}
	const limit = 5
	return fmt.Sprint(c.DNSNames[:min(len(c.DNSNames), limit)])
}
