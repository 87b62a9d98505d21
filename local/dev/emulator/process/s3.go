package process

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
	"github.com/versity/versitygw/s3response"

	"github.com/gatewright/gatewright/local/dev/emulator"
)

// serveS3 reads an S3Config from the first line of its input. It then serves S3 until ctx ends or the input is closed.
// For every uploaded object it writes an event as one line to eventLog.
func serveS3(ctx context.Context, in io.Reader, eventLog io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	var config emulator.S3Config
	if err := json.Unmarshal(line, &config); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	go func() {
		defer cancel() // the input is closed, because the parent process has ended
		_, _ = io.Copy(io.Discard, lines)
	}()
	files, err := openFiles(config)
	if err != nil {
		return err
	}
	return embedgw.RunVersityGW(ctx, &notifier{Backend: files, out: eventLog}, &embedgw.Config{
		RootUserAccess:    config.AccessKeyID,
		RootUserSecret:    config.SecretAccessKey,
		Region:            emulator.Region,
		Ports:             []string{config.Address},
		MaxConnections:    4096,
		MaxRequests:       4096,
		MultipartMaxParts: 10000,
		DisableACLs:       true,
		KeepAlive:         true,
		Quiet:             true,
	})
}

// openFiles opens the backend on the file system. It stores the attributes of objects in extended attributes, which are
// written atomically with the file. If the file system does not support them, it stores the attributes as files in a
// separate directory.
func openFiles(config emulator.S3Config) (backend.Backend, error) {
	options := posix.PosixOpts{ValidateBucketNames: true}
	options.SetNewDirPerm(0o700)
	options.SetNewFilePerm(0o600)
	var attributes meta.MetadataStorer = meta.XattrMeta{}
	if !supportsXattr(config.Root) {
		if err := os.MkdirAll(config.Sidecar, 0o700); err != nil {
			return nil, fmt.Errorf("make the directory of attributes: %w", err)
		}
		sidecar, err := meta.NewSideCar(config.Sidecar)
		if err != nil {
			return nil, fmt.Errorf("open the directory of attributes: %w", err)
		}
		attributes = sidecar
		options.SideCarDir = config.Sidecar
	}
	files, err := posix.New(config.Root, attributes, options)
	if err != nil {
		return nil, fmt.Errorf("open the directory of objects: %w", err)
	}
	return files, nil
}

// supportsXattr reports whether files in dir can have extended attributes.
func supportsXattr(dir string) bool { return meta.XattrMeta{}.Test(dir) == nil }

// notifier is a backend that writes an event to out for each object that PutObject or CompleteMultipartUpload has
// stored.
type notifier struct {
	backend.Backend
	mu  sync.Mutex
	out io.Writer
}

var _ backend.Backend = (*notifier)(nil)

// PutObject implements backend.Backend.
func (n *notifier) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	out, err := n.Backend.PutObject(ctx, in)
	if err == nil {
		var size int64
		if out.Size != nil {
			size = *out.Size
		} else if in.ContentLength != nil {
			size = *in.ContentLength
		}
		n.notify("ObjectCreated:Put", in.Bucket, in.Key, out.ETag, size)
	}
	return out, err
}

// CompleteMultipartUpload implements backend.Backend.
func (n *notifier) CompleteMultipartUpload(
	ctx context.Context, in *s3.CompleteMultipartUploadInput,
) (s3response.CompleteMultipartUploadResult, string, error) {
	out, version, err := n.Backend.CompleteMultipartUpload(ctx, in)
	if err == nil {
		var etag string
		if out.ETag != nil {
			etag = *out.ETag
		}
		n.notify("ObjectCreated:CompleteMultipartUpload", in.Bucket, in.Key, etag, 0)
	}
	return out, version, err
}

// notify writes an event in the format of S3, with an escaped key.
func (n *notifier) notify(name string, bucket, key *string, etag string, size int64) {
	if bucket == nil || key == nil {
		return
	}
	event, err := json.Marshal(events.S3Event{Records: []events.S3EventRecord{{
		EventVersion: "2.1",
		EventSource:  "aws:s3",
		AWSRegion:    emulator.Region,
		EventTime:    time.Now().UTC(),
		EventName:    name,
		S3: events.S3Entity{
			SchemaVersion: "1.0",
			Bucket:        events.S3Bucket{Name: *bucket, Arn: "arn:aws:s3:::" + *bucket},
			Object:        events.S3Object{Key: url.QueryEscape(*key), Size: size, ETag: strings.Trim(etag, `"`)},
		},
	}}})
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	_, _ = n.out.Write(append(event, '\n'))
}
