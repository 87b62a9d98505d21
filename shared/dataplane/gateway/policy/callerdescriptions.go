package policy

import (
	"fmt"
	"strings"

	"github.com/gatewright/gatewright/shared/format/project"
)

// warnCallers returns a warning about a policy that checks signatures or counts responses, "" for none. earlier are the
// inbound policies before it. identified is set if one of them identifies the user.
func warnCallers(earlier []project.Policy, p project.Policy, identified bool) string {
	switch p.Type {
	case abuseType:
		const unauthorized = 401
		byUser, counts := limitsAbusers(p.Handler.Options, unauthorized)
		if byUser && !identified {
			return fmt.Sprintf("This counts by user, and no policy before it says who the user is: each client's address "+
				"counts instead. Put a policy before it that does (%s), or count by ip.", strings.Join(identifyingTypes(), ", "))
		}
		for _, other := range earlier {
			if !byUser && counts && Identifies(other.Type) && !admitsAnonymous(other) {
				return fmt.Sprintf("This does not count the 401 responses of the policy %q, which refuses requests before them. "+
					"Put this policy before it.", other.Name)
			}
		}
	case webhookType:
		for _, other := range earlier {
			if other.Type == requestValidationType {
				return fmt.Sprintf("The policy %q before this one replaces a compressed body by its decompressed bytes, and then "+
					"no signature is valid. Put it behind this policy.", other.Name)
			}
		}
	}
	return ""
}

// callerDescriptions returns the descriptions of the types that check passwords and signatures, and count what callers do.
//
//nolint:gosec // G101: these are texts about secrets
func callerDescriptions() map[string]description {
	return map[string]description{
		basicAuthType: {
			"Admits requests with the name and the password of a user (HTTP Basic).", map[string]string{
				"allowUnauthenticatedRequests": "lets requests without a valid password through, without a user",
				"users":                        "the users",
				"users.name":                   "the name, which becomes the user's `sub`. It has no colon",
				"users.passwordHash":           "the hash of the password, by bcrypt or argon2id",
				"realm":                        "what browsers show when they ask for the password",
				"maxFailuresPerMinute":         "the number of wrong passwords from an address before it gets 429 for a minute",
			},
		},
		webhookType: {
			"Admits messages whose body is signed with a secret (HMAC with SHA-256).", map[string]string{
				"scheme": "how messages are signed: `standard` (Standard Webhooks), `hex` (a header with the signature of the " +
					"body), or `timestamped` (a header with `t=` and `v1=`)",
				"secrets":  "1 to 5 secrets. A message needs a signature by one of them",
				"header":   "the header with the signature. `X-Hub-Signature-256` for `hex` if it is not set",
				"prefix":   "the text before the signature, for `hex`. `sha256=` if it is not set",
				"idHeader": "the header with the id of a message, for `hex` with `rejectReplays`",
				"toleranceSeconds": "how far the time of a message can be from the gateway's clock, and how long replays are " +
					"remembered. 300 if it is not set",
				"rejectReplays": "refuses a message that was accepted before (409)",
				"maxBodyBytes":  "the maximum size of a body in bytes (413)",
			},
		},
		abuseType: {
			"Blocks callers with too many failed requests, and bounds their requests in flight (429).", map[string]string{
				"by": "the caller: the address of the client (`ip`), or the `user`. A request without a user counts for its " +
					"address",
				"statuses":      "the statuses of the responses to count, such as 401, 403 and 404",
				"limit":         "the number of such responses in a window that blocks the caller",
				"windowMinutes": "the length of a window. 1 if it is not set",
				"blockMinutes":  "how long a caller is blocked. 10 if it is not set",
				"maxConcurrent": "the maximum number of requests in flight of a caller",
			},
		},
	}
}
