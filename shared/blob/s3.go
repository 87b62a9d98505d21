package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Bucket is the product's bucket in S3. It is safe for concurrent use.
type Bucket struct {
	name    string
	client  *s3.Client
	presign *s3.PresignClient
}

// Options are what a Bucket takes from outside.
type Options struct {
	// Name of the bucket.
	Name string
	// Endpoint is the base address of an S3 that is not AWS, which is then
	// spoken to with the bucket in the path; "" for AWS.
	Endpoint string
	// PublicEndpoint is the base address under which clients reach Endpoint,
	// for presigned URLs; "" for the same.
	PublicEndpoint string
}

// New makes a Bucket; it makes no request. Failed requests are repeated as
// config.Retryer says, by default as the SDK does.
func New(config aws.Config, o Options) *Bucket {
	var retryer aws.Retryer = retry.NewStandard()
	if config.Retryer != nil {
		retryer = config.Retryer()
	}
	client := func(endpoint string) *s3.Client {
		return s3.NewFromConfig(config, func(c *s3.Options) {
			if endpoint != "" {
				c.BaseEndpoint = aws.String(endpoint)
				c.UsePathStyle = true
			}
			// By default the SDK puts the checksum of an empty body into a
			// presigned PUT, and S3 then refuses every real body.
			c.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			c.Retryer = retry.AddWithErrorCodes(retryer, "ConditionalRequestConflict")
		})
	}
	b := &Bucket{name: o.Name, client: client(o.Endpoint)}
	public := b.client
	if o.PublicEndpoint != "" {
		public = client(o.PublicEndpoint)
	}
	b.presign = s3.NewPresignClient(public)
	return b
}

// Create makes the bucket unless it is there: for the local run. In AWS the
// infrastructure makes it.
func (b *Bucket) Create(ctx context.Context) error {
	_, err := b.client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &b.name})
	if _, mine := errors.AsType[*types.BucketAlreadyOwnedByYou](err); mine {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create the bucket: %w", err)
	}
	return nil
}

// Put stores body at key, which has to be made of body's digest. An object
// that is there already has the same content and stays: Put may be repeated.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := Refuse(ctx); err != nil {
		return err
	}
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.name, Key: &key, Body: body, IfNoneMatch: aws.String("*"),
	})
	if err != nil && status(err) != http.StatusPreconditionFailed {
		return fmt.Errorf("put an object: %w", err)
	}
	return nil
}

// Replace stores body in place of the object at key that has the etag: another form of the same content, such as one that is sealed
// anew. It answers ErrNotFound where the object is gone, and ErrChanged where it is another one.
func (b *Bucket) Replace(ctx context.Context, key, etag string, body io.ReadSeeker) error {
	if err := Refuse(ctx); err != nil {
		return err
	}
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.name, Key: &key, Body: body, IfMatch: aws.String(`"` + etag + `"`),
	})
	if err != nil {
		return explained("replace an object", err)
	}
	return nil
}

// Get opens the object at key for reading; the caller closes the reader. With
// an etag it answers ErrChanged for any other object. An object over limit
// bytes is ErrTooLarge, at the latest from the reader, which never gives more.
func (b *Bucket) Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, Object, error) {
	in := &s3.GetObjectInput{Bucket: &b.name, Key: &key}
	if etag != "" {
		in.IfMatch = aws.String(`"` + etag + `"`)
	}
	out, err := b.client.GetObject(ctx, in)
	if err != nil {
		return nil, Object{}, explained("get an object", err)
	}
	o := object(key, out.ContentLength, out.ETag, out.LastModified)
	if o.Size > limit {
		// The connection is not worth reading the rest for.
		return nil, Object{}, errors.Join(ErrTooLarge, out.Body.Close())
	}
	return &limited{out.Body, limit}, o, nil
}

// Head describes the object at key, or ErrNotFound.
func (b *Bucket) Head(ctx context.Context, key string) (Object, error) {
	out, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: &key})
	if err != nil {
		return Object{}, explained("look at an object", err)
	}
	return object(key, out.ContentLength, out.ETag, out.LastModified), nil
}

// Delete removes the object at key, if there is one.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := Refuse(ctx); err != nil {
		return err
	}
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key})
	if err != nil && status(err) != http.StatusNotFound {
		return fmt.Errorf("delete an object: %w", err)
	}
	return nil
}

// List returns all objects whose keys begin with prefix, in the order of their
// keys, reading on as it is ranged over. An error ends it.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(Object{}, fmt.Errorf("list objects: %w", err))
				return
			}
			for _, c := range page.Contents {
				if !yield(object(aws.ToString(c.Key), c.Size, c.ETag, c.LastModified), nil) {
					return
				}
			}
		}
	}
}

// PresignPut makes a URL to which any client may PUT one body with no header
// of its own for UploadValidity, without credentials. The URL is a secret.
//
// The signature covers method, host, key and expiry: with any of them changed
// S3 refuses the request. S3 cannot enforce that the URL is used once, nor the
// size: the reader of the upload does, by taking the first upload alone, by
// its ETag, and with the limit of Get. Under temporary credentials the URL also
// ends with them.
func (b *Bucket) PresignPut(ctx context.Context, key string) (string, error) {
	if address, ok := Nowhere(ctx, key); ok {
		return address, nil
	}
	request, err := b.presign.PresignPutObject(ctx, &s3.PutObjectInput{Bucket: &b.name, Key: &key},
		s3.WithPresignExpires(UploadValidity))
	if err != nil {
		return "", fmt.Errorf("presign an upload: %w", err)
	}
	return request.URL, nil
}

func object(key string, size *int64, etag *string, modified *time.Time) Object {
	return Object{
		Key: key, Size: aws.ToInt64(size), Modified: aws.ToTime(modified).UTC(),
		ETag: strings.Trim(aws.ToString(etag), `"`),
	}
}

// explained names the failures that callers tell apart. It goes by status,
// since a HEAD has no body to read a code from; but a bucket that is not there
// is no answer about an object.
func explained(doing string, err error) error {
	api, _ := errors.AsType[smithy.APIError](err)
	switch code := status(err); {
	case code == http.StatusNotFound && (api == nil || api.ErrorCode() != "NoSuchBucket"):
		return ErrNotFound
	case code == http.StatusPreconditionFailed:
		return ErrChanged
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// status returns the response's status, 0 when there was no response.
func status(err error) int {
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return r.HTTPStatusCode()
	}
	return 0
}
