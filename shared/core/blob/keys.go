package blob

import "strings"

// This file has the templates of all keys.

const uploads = "uploads/"

// UploadKey returns the key to which the client of a presigned URL uploads the archive
// of the build with this statusId. The id is the last segment of the URL's path.
func UploadKey(statusID string) string { return uploads + statusID }

// UploadID returns the statusId in the key of an upload, and reports whether
// the key is of an upload. It is for handlers of events about new objects.
func UploadID(key string) (statusID string, ok bool) {
	id, ok := strings.CutPrefix(key, uploads)
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// SourceKey returns the key of an accepted archive, which is kept for redeploys. Callers pass DEPLOYMENT/DIGEST-BUILD.
// So a deployment's objects can be listed by a prefix, to delete them. The cost: two deployments with the same content
// store it twice.
func SourceKey(name string) string { return "sources/" + name }

// ArtifactKey returns the key of a compiled project, which the gateway loads. Package artifacts defines the name,
// which begins with the deployment, as that of a source does.
func ArtifactKey(name string) string { return "artifacts/" + name }

// TruststoreKey returns the key of the CAs of an account's clients, which API Gateway reads. Callers pass ACCOUNT/DIGEST.
func TruststoreKey(name string) string { return "truststores/" + name }
