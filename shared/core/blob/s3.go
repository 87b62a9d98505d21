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

// Options configure a Bucket.
type Options struct {
	// Name is the name of the bucket.
	Name string
	// Endpoint is the base address of an S3 that is not AWS; "" means AWS. Requests to it have the bucket in the path.
	Endpoint string
	// PublicEndpoint is the base address at which clients reach Endpoint, for presigned URLs; "" means Endpoint.
	PublicEndpoint string
}

// New returns a Bucket; it makes no request. config.Retryer repeats failed requests; the default is that of the SDK.
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

// Create creates the bucket unless it exists. It is for the local run; in AWS the infrastructure creates the bucket.
func (b *Bucket) Create(ctx context.Context) error {
	_, err := b.client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &b.name})
	if _, owned := errors.AsType[*types.BucketAlreadyOwnedByYou](err); owned {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create the bucket: %w", err)
	}
	return nil
}

// Put stores body at key, which must be derived from body's digest. If there is an object
// at the key, it has the same content, and Put leaves it unchanged. So Put can be repeated.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := RefuseInDryRun(ctx); err != nil {
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

// Replace replaces the object at key, which must have the etag, with body. body is another
// form of the same content, such as the content sealed under a new root key. Replace returns
// ErrNotFound if the object no longer exists, and ErrChanged if it has another etag.
func (b *Bucket) Replace(ctx context.Context, key, etag string, body io.ReadSeeker) error {
	if err := RefuseInDryRun(ctx); err != nil {
		return err
	}
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.name, Key: &key, Body: body, IfMatch: aws.String(`"` + etag + `"`),
	})
	if err != nil {
		return translateError("replace an object", err)
	}
	return nil
}

// Get opens the object at key for reading. The caller must close the reader. If there is no object, Get
// returns ErrNotFound. If etag is not "" and the object has another etag, Get returns ErrChanged. For an
// object of more than limit bytes, Get or its reader returns ErrTooLarge, and the reader never returns
// more than limit bytes.
func (b *Bucket) Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, Object, error) {
	in := &s3.GetObjectInput{Bucket: &b.name, Key: &key}
	if etag != "" {
		in.IfMatch = aws.String(`"` + etag + `"`)
	}
	out, err := b.client.GetObject(ctx, in)
	if err != nil {
		return nil, Object{}, translateError("get an object", err)
	}
	o := object(key, out.ContentLength, out.ETag, out.LastModified)
	if o.Size > limit {
		// Closing the connection is cheaper than reading the rest.
		return nil, Object{}, errors.Join(ErrTooLarge, out.Body.Close())
	}
	return &limitedReader{out.Body, limit}, o, nil
}

// Head returns the description of the object at key, or ErrNotFound.
func (b *Bucket) Head(ctx context.Context, key string) (Object, error) {
	out, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: &key})
	if err != nil {
		return Object{}, translateError("look at an object", err)
	}
	return object(key, out.ContentLength, out.ETag, out.LastModified), nil
}

// Delete deletes the object at key, if it exists.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := RefuseInDryRun(ctx); err != nil {
		return err
	}
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key})
	if err != nil && status(err) != http.StatusNotFound {
		return fmt.Errorf("delete an object: %w", err)
	}
	return nil
}

// List returns all objects whose keys begin with prefix, in the order of their
// keys. It reads further pages during the iteration. An error ends the iteration.
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

// PresignPut returns a URL to which any client can PUT one body, without headers
// of its own and without credentials, for UploadValidity. The URL is a secret.
//
// The signature covers method, host, key and expiry: if one of them is changed, S3 refuses
// the request. S3 cannot enforce that the URL is used only once, nor limit the size. The code
// that reads the upload enforces both: it accepts only the ETag of the first upload, and uses
// the limit of Get. If the process has temporary credentials, the URL also expires with them.
func (b *Bucket) PresignPut(ctx context.Context, key string) (string, error) {
	if address, ok := DryRunURL(ctx, key); ok {
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

// translateError translates an error of the SDK into one of the errors that callers
// distinguish. It uses the HTTP status, because the response to a HEAD request has no
// body with an error code. It does not report a missing bucket as a missing object.
func translateError(operation string, err error) error {
	api, _ := errors.AsType[smithy.APIError](err)
	switch code := status(err); {
	case code == http.StatusNotFound && (api == nil || api.ErrorCode() != "NoSuchBucket"):
		return ErrNotFound
	case code == http.StatusPreconditionFailed:
		return ErrChanged
	}
	return fmt.Errorf("%s: %w", operation, err)
}

// status returns the response's status, 0 if there was no response.
func status(err error) int {
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return r.HTTPStatusCode()
	}
	return 0
}
