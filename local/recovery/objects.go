package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// version is one of an object's, or the marker of a deletion.
type version struct {
	id     string
	marker bool
	on     time.Time
}

// undo says which markers have to go for an object to come back that was there between from and to: those
// of deletions since then. A key's content never changes, since it is named by its digest, so that whatever
// was put under it later is the same. versions are the newest first.
//
// S3 tells its times in whole seconds: a deletion in the very second is one since then, so that too much
// comes back rather than too little.
func undo(versions []version, from, to time.Time) (markers []string) {
	from, to = from.Truncate(time.Second), to.Add(time.Second).Truncate(time.Second)
	if len(versions) == 0 || !versions[0].marker {
		return nil // it is there
	}
	for _, v := range versions {
		switch {
		case v.marker && v.on.Before(from):
			return nil // it was gone by then
		case !v.marker && !v.on.After(to):
			return above(versions)
		}
	}
	return nil // it came later
}

// above are the markers on top of the newest version.
func above(versions []version) (markers []string) {
	for _, v := range versions {
		if !v.marker {
			break
		}
		markers = append(markers, v.id)
	}
	return markers
}

// bringBack undoes the deletions from a bucket since a moment, and tells which keys of wanted are
// in it then. What was put since then stays.
func (w *work) bringBack(ctx context.Context, bucket string, from, to time.Time, wanted map[string]bool) (there map[string]bool, back int, err error) {
	there = map[string]bool{}
	key, versions := "", []version(nil)
	flush := func() error {
		if key == "" {
			return nil
		}
		markers := undo(versions, from, to)
		for _, id := range markers {
			if _, err := w.objects.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: aws.String(key), VersionId: aws.String(id)}); err != nil {
				return fmt.Errorf("bring back the object %s: %w", key, err)
			}
		}
		if len(markers) > 0 {
			back++
		}
		if wanted[key] && (len(markers) > 0 || len(versions) > 0 && !versions[0].marker) {
			there[key] = true
		}
		return nil
	}
	err = w.eachVersion(ctx, bucket, func(of string, v version) error {
		if of != key {
			if err := flush(); err != nil {
				return err
			}
			key, versions = of, versions[:0]
		}
		versions = append(versions, v)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return there, back, err
}

// eachVersion visits all versions and markers of a bucket by the keys of their objects, those of one the
// newest first. S3 answers both lists in the order of keys, and each page has both.
func (w *work) eachVersion(ctx context.Context, bucket string, visit func(key string, v version) error) error {
	pages := s3.NewListObjectVersionsPaginator(w.objects, &s3.ListObjectVersionsInput{Bucket: &bucket})
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
