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

	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
)

// versionedBucket has the versions of the objects in a bucket.
type versionedBucket interface {
	// walk calls visit with all versions and delete markers, sorted by key. Those of the same key come newest first.
	walk(ctx context.Context, visit func(key string, v version) error) error
	// removeMarker removes a delete marker.
	removeMarker(ctx context.Context, key, id string) error
	// open reads a version.
	open(ctx context.Context, key, id string) (io.ReadCloser, error)
	// makeNewest makes a version the newest one again.
	makeNewest(ctx context.Context, key, id string) error
}

// s3Bucket is a versionedBucket in S3.
type s3Bucket struct {
	client *s3.Client
	name   string
}

var _ versionedBucket = s3Bucket{}

// versionsOf returns the bucket in S3 with a name. In a test it returns the test's bucket, whose name does not matter.
func (w *work) versionsOf(name string) versionedBucket {
	if w.versions != nil {
		return w.versions
	}
	return s3Bucket{w.objects, name}
}

// restoreArtifacts finds, for each artifact, the newest version that the root keys of an installation can open, and
// copies it if a newer version exists. A rotation of the root key seals each artifact again under the same name, so a
// table from before the rotation needs older versions. restoreArtifacts removes an artifact from present if no version
// can be opened.
func (w *work) restoreArtifacts(
	ctx context.Context, p installation.Parts, bucket string, objects restoredObjects, present map[string]bool,
) error {
	if _, err := rootKeysOf(ctx, p); errors.Is(err, rootkey.ErrNoRootKey) {
		return nil // nothing was ever sealed
	} else if err != nil {
		return fmt.Errorf("open the root key: %w", err)
	}
	n, sealer, versions := 0, p.Sealer(), w.versionsOf(bucket)
	for _, key := range sortedKeys(objects.versions) {
		if !strings.HasPrefix(key, artifacts.Prefix()) {
			continue
		}
		i, err := w.newestOpenable(ctx, sealer, versions, key, objects.versions[key])
		switch {
		case err != nil:
			return err
		case i < 0:
			delete(present, key)
		case i > 0:
			if err := versions.makeNewest(ctx, key, objects.versions[key][i]); err != nil {
				return fmt.Errorf("put the artifact %s back as it was: %w", key, err)
			}
			n++
		}
	}
	if n > 0 {
		w.logf("%d artifacts were put back as another root key had sealed them: who works on another table opens them no more", n)
	}
	return nil
}

// newestOpenable returns the index of the newest version that sealer can open, or -1 if it can open none.
func (w *work) newestOpenable(
	ctx context.Context, sealer artifacts.Sealer, bucket versionedBucket, key string, versions []string,
) (int, error) {
	for i, id := range versions {
		body, err := bucket.open(ctx, key, id)
		if err != nil {
			return 0, fmt.Errorf("read the artifact %s: %w", key, err)
		}
		ok, err := artifacts.CanOpen(ctx, sealer, key, body)
		if err := errors.Join(err, body.Close()); err != nil {
			return 0, fmt.Errorf("read the artifact %s: %w", key, err)
		}
		if ok {
			return i, nil
		}
	}
	return -1, nil
}

// restoreStackArtifacts makes S3 serve the artifacts as the table that the stack uses needs them (restoreArtifacts). It
// is called when a restore is abandoned, because the restore may have made other versions the newest.
func (w *work) restoreStackArtifacts(ctx context.Context, s stack) error {
	d, err := w.describe(ctx, s.table)
	if err != nil || d == nil {
		return err
	}
	current, err := w.survey(ctx, s.table)
	if err != nil {
		return err
	}
	referenced, objects := current.objectKeys(), restoredObjects{versions: map[string][]string{}}
	if err := w.versionsOf(s.bucket).walk(ctx, func(key string, v version) error {
		if referenced[key] && !v.marker {
			objects.versions[key] = append(objects.versions[key], v.id)
		}
		return nil
	}); err != nil {
		return err
	}
	return w.restoreArtifacts(ctx, w.parts(s, s.table), s.bucket, objects, map[string]bool{})
}

// removeMarker implements versionedBucket.
func (b s3Bucket) removeMarker(ctx context.Context, key, id string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key, VersionId: &id})
	return err
}

// open implements versionedBucket.
func (b s3Bucket) open(ctx context.Context, key, id string) (io.ReadCloser, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key, VersionId: &id})
	if err != nil {
		return nil, err
	}
	return out.Body, nil
}

// makeNewest implements versionedBucket. It copies the version, so that the version that was the newest is kept below
// the copy.
func (b s3Bucket) makeNewest(ctx context.Context, key, id string) error {
	from := (&url.URL{Path: b.name + "/" + key}).EscapedPath() + "?versionId=" + url.QueryEscape(id)
	_, err := b.client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &b.name, Key: &key, CopySource: &from})
	return err
}

// walk implements versionedBucket. Each page has a list of versions and a list of markers, both sorted by key.
func (b s3Bucket) walk(ctx context.Context, visit func(key string, v version) error) error {
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

// versionFirst reports whether a version comes before a marker in the order of walk.
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
