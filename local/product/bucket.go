package product

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// bucket is where the installation's objects are: files of ours, or an S3.
type bucket struct {
	installation.Bucket

	files *files.Bucket // nil where an S3 has the objects

	endpoint    string // of S3
	credentials emulator.Credentials
	emulator    *emulator.Emulator // the S3 that was started here, if one was

	uploaded uploadReceiver
}

// silent reports whether nobody tells of uploads.
func (b *bucket) silent() bool { return b.files == nil && b.emulator == nil }

func (b *bucket) stop() {
	if b.emulator != nil {
		b.emulator.Stop()
	}
}

// startS3 starts an S3 that functions in processes of their own can reach, or
// finds the one of the settings.
func (b *bucket) startS3(ctx context.Context, s settings, dir *datadir.Dir, log *slog.Logger) (err error) {
	if s.s3 != "" {
		b.endpoint, b.credentials = s.s3, anyCredentials()
		return elsewhere(reach(ctx, s.s3), config.VarS3Endpoint)
	}
	if b.credentials, err = emulator.LoadCredentials(dir); err != nil {
		return err
	}
	program, err := s.emulators()
	if err != nil {
		return err
	}
	b.emulator, err = emulator.StartS3(ctx, emulator.S3Options{
		Dir: dir, Program: program, Credentials: b.credentials, Created: b.uploaded.receive, Log: log,
	})
	if err != nil {
		return fmt.Errorf("%w (its log is %s)", err, dir.Path("logs", "s3.log"))
	}
	b.endpoint = b.emulator.Endpoint
	return nil
}

// openS3 opens the bucket of the S3 that was started.
func (b *bucket) openS3(ctx context.Context, s settings, c config.Config) error {
	in := blob.New(s.aws(b.credentials), blob.Options{Name: bucketName, Endpoint: c.S3Endpoint, PublicEndpoint: c.S3PublicEndpoint})
	b.Bucket = in
	return in.Create(ctx)
}

// openFiles opens the objects in the data directory. Clients upload to them at
// address, which serves them.
func (b *bucket) openFiles(dir *datadir.Dir, engine *embedded.Backend, key seal.KeySource, address string, refuse apigateway.Refusal) error {
	sign := seal.NewHasher(key, "upload")
	in, err := files.Open(files.Options{
		Dir: dir.Path(datadir.Objects), Notes: engine, Now: time.Now,
		Sign: sign.Hash, Signed: sign.Matches, Address: address, Refuse: refuse.Answer, Log: refuse.Log, Uploaded: b.uploaded.tell,
	})
	b.Bucket, b.files = in, in
	return err
}

// serve is api with the uploads before it, where we have them.
func (b *bucket) serve(api http.Handler) http.Handler {
	if b.files == nil {
		return api
	}
	uploads, below := b.files.Uploads(), "/"+blob.UploadKey("")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, below) {
			uploads.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// forgetEvery is the time between two looks for URLs of uploads that have expired.
const forgetEvery = time.Hour

// keepHouse forgets which URLs were used until ctx ends.
func (b *bucket) keepHouse(ctx context.Context, log *slog.Logger) {
	if b.files == nil {
		return
	}
	ticker := time.NewTicker(forgetEvery)
	defer ticker.Stop()
	for {
		if err := b.files.Forget(); err != nil {
			log.Warn("used upload URLs cannot be forgotten, trying again later", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// uploadReceiver passes word of uploads on to the triggers, which are there a
// little later than the bucket. What comes before them is found by their first look.
type uploadReceiver struct {
	to atomic.Pointer[triggers.Runner]
}

// receive takes an S3's event.
func (u *uploadReceiver) receive(e events.S3Event) {
	if r := u.to.Load(); r != nil {
		r.ObjectCreated(e)
	}
}

// tell takes an object that was uploaded to our files.
func (u *uploadReceiver) tell(o blob.Object) {
	if r := u.to.Load(); r != nil {
		r.Uploaded(o)
	}
}
