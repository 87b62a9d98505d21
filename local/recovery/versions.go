package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

// versioned is what a bucket keeps of its objects.
type versioned interface {
	// each visits all versions and markers by the keys of their objects, those of one the newest first.
	each(ctx context.Context, visit func(key string, v version) error) error
	// unmark takes the marker of a deletion away.
	unmark(ctx context.Context, key, id string) error
	// open reads a version.
	open(ctx context.Context, key, id string) (io.ReadCloser, error)
	// top makes a version the newest again.
	top(ctx context.Context, key, id string) error
}

// bucket is a versioned in S3.
type bucket struct {
	client *s3.Client
	name   string
}

var _ versioned = bucket{}

func (w *work) versionsOf(name string) versioned {
	if w.versions != nil {
		return w.versions
	}
	return bucket{w.objects, name}
}

// matches has artifacts be those that the root keys of an installation open. A rotation of the root key seals them anew under the
// same name: a table of before one needs those of before. Of an artifact that no version opens there is none.
func (w *work) matches(ctx context.Context, p installation.Parts, name string, of found, there map[string]bool) error {
	if _, err := ringOf(ctx, p); errors.Is(err, rootkey.ErrNone) {
		return nil // nothing was ever sealed
	} else if err != nil {
		return fmt.Errorf("open the root key: %w", err)
	}
	n, sealer := 0, p.Sealer()
	for _, key := range sortedNames(of.versions) {
		if !strings.HasPrefix(key, artifacts.Prefix()) {
			continue
		}
		i, err := w.opensOf(ctx, sealer, w.versionsOf(name), key, of.versions[key])
		switch {
		case err != nil:
			return err
		case i < 0:
			delete(there, key)
		case i > 0:
			if err := w.versionsOf(name).top(ctx, key, of.versions[key][i]); err != nil {
				return fmt.Errorf("put the artifact %s back as it was: %w", key, err)
			}
			n++
		}
	}
	if n > 0 {
		w.say("%d artifacts were put back as another root key had sealed them: who works on another table opens them no more", n)
	}
	return nil
}

// opensOf is the place of the newest version that opens, -1 for none.
func (w *work) opensOf(ctx context.Context, sealer artifacts.Sealer, of versioned, key string, versions []string) (int, error) {
	for i, id := range versions {
		body, err := of.open(ctx, key, id)
		if err != nil {
			return 0, fmt.Errorf("read the artifact %s: %w", key, err)
		}
		ok, err := artifacts.Opens(ctx, sealer, key, body)
		if err := errors.Join(err, body.Close()); err != nil {
			return 0, fmt.Errorf("read the artifact %s: %w", key, err)
		}
		if ok {
			return i, nil
		}
	}
	return -1, nil
}

// takeBack has artifacts be those of the stack's table again, when a restore is given up that has put others in their place.
func (w *work) takeBack(ctx context.Context, s stack) error {
	d, err := w.describe(ctx, s.table)
	if err != nil || d == nil {
		return err
	}
	now, err := w.survey(ctx, s.table)
	if err != nil {
		return err
	}
	wanted, of := now.objects(), found{versions: map[string][]string{}}
	if err := w.versionsOf(s.bucket).each(ctx, func(key string, v version) error {
		if wanted[key] && !v.marker {
			of.versions[key] = append(of.versions[key], v.id)
		}
		return nil
	}); err != nil {
		return err
	}
	return w.matches(ctx, w.parts(s, s.table), s.bucket, of, map[string]bool{})
}

// unmark implements versioned.
func (b bucket) unmark(ctx context.Context, key, id string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key, VersionId: &id})
	return err
}

// open implements versioned.
func (b bucket) open(ctx context.Context, key, id string) (io.ReadCloser, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key, VersionId: &id})
	if err != nil {
		return nil, err
	}
	return out.Body, nil
}

// top implements versioned: what was the newest stays behind the copy.
func (b bucket) top(ctx context.Context, key, id string) error {
	from := (&url.URL{Path: b.name + "/" + key}).EscapedPath() + "?versionId=" + url.QueryEscape(id)
	_, err := b.client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &b.name, Key: &key, CopySource: &from})
	return err
}

// each implements versioned. S3 answers both lists in the order of keys, and each page has both.
func (b bucket) each(ctx context.Context, visit func(key string, v version) error) error {
	pages := s3.NewListObjectVersionsPaginator(b.client, &s3.ListObjectVersionsInput{Bucket: &b.name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list the versions of objects: %w", err)
		}
		vs, ms := page.Versions, page.DeleteMarkers
		for len(vs) > 0 || len(ms) > 0 {
			if len(ms) == 0 || len(vs) > 0 && versionFirst(vs[0], ms[0]) {
				err = visit(aws.ToString(vs[0].Key), version{aws.ToString(vs[0].VersionId), false, aws.ToTime(vs[0].LastModified)})
				vs = vs[1:]
			} else {
				err = visit(aws.ToString(ms[0].Key), version{aws.ToString(ms[0].VersionId), true, aws.ToTime(ms[0].LastModified)})
				ms = ms[1:]
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// versionFirst reports whether a version comes before a marker in the order of both: by keys, and
// of one key the newest first.
func versionFirst(v types.ObjectVersion, m types.DeleteMarkerEntry) bool {
	if vk, mk := aws.ToString(v.Key), aws.ToString(m.Key); vk != mk {
		return vk < mk
	}
	switch {
	case aws.ToBool(v.IsLatest):
		return true
	case aws.ToBool(m.IsLatest):
		return false
	}
	return aws.ToTime(v.LastModified).After(aws.ToTime(m.LastModified))
}
