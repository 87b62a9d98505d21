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
	"github.com/gatewright/gatewright/local/dev/emulator"
	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// bucket contains the installation's objects, as files in the data directory or in S3.
type bucket struct {
	installation.Bucket

	files *files.Bucket // nil if the objects are in S3

	endpoint    string // of S3
	credentials emulator.Credentials
	emulator    *emulator.Emulator // the S3 emulator that this process has started, or nil

	uploads uploadReceiver
}

// lacksNotifications reports whether the bucket sends no notifications of uploads.
func (b *bucket) lacksNotifications() bool { return b.files == nil && b.emulator == nil }

func (b *bucket) stop() {
	if b.emulator != nil {
		b.emulator.Stop()
	}
}

// startS3 starts an S3 emulator that functions in separate processes
// can reach. If the settings name an S3 endpoint, it uses that endpoint instead.
func (b *bucket) startS3(ctx context.Context, s settings, dir *datadir.Dir, log *slog.Logger) (err error) {
	if s.s3 != "" {
		b.endpoint, b.credentials = s.s3, emulatorCredentials()
		return endpointError(checkReachable(ctx, s.s3), config.VarS3Endpoint)
	}
	if b.credentials, err = emulator.LoadCredentials(dir); err != nil {
		return err
	}
	program, err := s.emulatorPath()
	if err != nil {
		return err
	}
	b.emulator, err = emulator.StartS3(ctx, emulator.S3Options{
		Dir: dir, Program: program, Credentials: b.credentials, Created: b.uploads.receiveEvent, Log: log,
	})
	if err != nil {
		return fmt.Errorf("%w (its log is %s)", err, dir.Path("logs", "s3.log"))
	}
	b.endpoint = b.emulator.Endpoint
	return nil
}

// openS3 opens the bucket at the S3 endpoint that startS3 has determined.
func (b *bucket) openS3(ctx context.Context, s settings, c config.Config) error {
	s3Bucket := blob.New(s.awsConfig(b.credentials),
		blob.Options{Name: bucketName, Endpoint: c.S3Endpoint, PublicEndpoint: c.S3PublicEndpoint})
	b.Bucket = s3Bucket
	return s3Bucket.Create(ctx)
}

// openFiles opens the objects in the data directory. address is the origin of the URLs to which clients upload objects.
func (b *bucket) openFiles(
	dir *datadir.Dir, engine *embedded.Backend, key seal.KeySource, address string, refusal apigateway.Refuser,
) error {
	hasher := seal.NewHasher(key, "upload")
	fileBucket, err := files.Open(files.Options{
		Dir: dir.Path(datadir.Objects), Notes: engine, Now: time.Now,
		Sign: hasher.Hash, Verify: hasher.Matches, Address: address, RespondError: refusal.Respond, Log: refusal.Log,
		OnUpload: b.uploads.receiveObject,
	})
	b.Bucket, b.files = fileBucket, fileBucket
	return err
}

// serve returns a handler that passes requests to api. If the objects are files, it serves uploads itself.
func (b *bucket) serve(api http.Handler) http.Handler {
	if b.files == nil {
		return api
	}
	uploads, prefix := b.files.Uploads(), "/"+blob.UploadKey("")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, prefix) {
			uploads.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// cleanupInterval is the time between two deletions of records of used upload URLs.
const cleanupInterval = time.Hour

// runCleanup deletes the expired records of used upload URLs until ctx ends.
func (b *bucket) runCleanup(ctx context.Context, log *slog.Logger) {
	if b.files == nil {
		return
	}
	ticker := time.NewTicker(cleanupInterval)
	defer ticker.Stop()
	for {
		if err := b.files.DeleteExpiredNotes(); err != nil {
			log.Warn("used upload URLs cannot be forgotten, trying again later", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// uploadReceiver passes notifications of uploads to the triggers, which start after the bucket. It drops notifications
// before that: the triggers list the objects when they start.
type uploadReceiver struct {
	runner atomic.Pointer[triggers.Runner]
}

// receiveEvent passes on an event of the S3 emulator.
func (u *uploadReceiver) receiveEvent(e events.S3Event) {
	if r := u.runner.Load(); r != nil {
		r.QueueEvent(e)
	}
}

// receiveObject passes on an object that was uploaded to the data directory.
func (u *uploadReceiver) receiveObject(o blob.Object) {
	if r := u.runner.Load(); r != nil {
		r.QueueObject(o)
	}
}
