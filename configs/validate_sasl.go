package configs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The mechanisms, in lower case.
const (
	saslOAuth = "oauthbearer"
	saslAWS   = "aws_msk_iam"
)

// What an extension of OAUTHBEARER (RFC 7628, 3.1) and the name of a region may be.
var (
	extension = regexp.MustCompile(`^[A-Za-z]{1,64}=[\x20-\x7e]{1,1000}$`)
	region    = regexp.MustCompile(`^[a-z0-9-]{0,64}$`)
)

// sasl: each mechanism has settings of its own, and takes no other's.
func (f *faults) sasl(s SASL) {
	const at = "kafka.sasl."
	mechanism := strings.ToLower(s.Mechanism)
	withLogin := []string{"plain", "scram-sha-256", "scram-sha-512"}
	login := slices.Contains(withLogin, mechanism)
	if !login && mechanism != "" && mechanism != saslOAuth && mechanism != saslAWS {
		f.refuse(true, at+"mechanism", s.Mechanism, "must be one of %s, %s, %s, or empty", strings.Join(withLogin, ", "), saslOAuth, saslAWS)
		return
	}
	f.refuse(login && s.Username == "", at+"username", "", "the mechanism %s needs one", mechanism)
	only := "is for the mechanisms " + strings.Join(withLogin, ", ") + " only; set kafka.sasl.mechanism to one, or remove it"
	f.refuse(!login && s.Username != "", at+"username", s.Username, "%s", only)
	f.refuse(!login && s.Password != "", at+"password", phrase(redacted), "%s", only)
	f.refuse(mechanism != saslAWS && s.AWS.Region != "", at+"aws.region", s.AWS.Region, "is for the mechanism %s only", saslAWS)
	f.refuse(!region.MatchString(s.AWS.Region), at+"aws.region", s.AWS.Region, "must be the name of a region, such as eu-central-1, or empty")
	f.oauth(at+"oauth.", s.OAuth, mechanism == saslOAuth)
}

func (f *faults) oauth(at string, o OAuth, on bool) {
	if !on {
		stated := o.Token != "" || o.TokenURL != "" || o.ClientID != "" || o.ClientSecret != "" || o.Audience != "" || o.CAFile != "" ||
			len(o.Scopes) > 0 || len(o.Extensions) > 0
		f.refuse(stated, strings.TrimSuffix(at, "."), phrase("settings are made"), "are for the mechanism %s only", saslOAuth)
		return
	}
	f.refuse(o.Token == "" && o.TokenURL == "", at+"token", "", "the mechanism %s needs it, or %stoken_url", saslOAuth, at)
	f.refuse(o.Token != "" && o.TokenURL != "", at+"token", phrase(redacted), "can't be together with %stoken_url", at)
	for i, text := range o.Extensions {
		f.refuse(!extension.MatchString(text) || strings.HasPrefix(text, "auth="), at+"extensions."+strconv.Itoa(i), text,
			"must be name=value, the name of letters and not auth")
	}
	if o.TokenURL == "" {
		f.refuse(o.ClientID != "", at+"client_id", o.ClientID, "is for %stoken_url only", at)
		f.refuse(o.ClientSecret != "", at+"client_secret", phrase(redacted), "is for %stoken_url only", at)
		f.refuse(len(o.Scopes) > 0, at+"scopes", o.Scopes, "are for %stoken_url only", at)
		f.refuse(o.Audience != "", at+"audience", o.Audience, "is for %stoken_url only", at)
		f.refuse(o.CAFile != "", at+"ca_file", o.CAFile, "is for %stoken_url only", at)
		return
	}
	scheme, _ := f.plainURL(at+"token_url", o.TokenURL, at+"client_id and client_secret")
	f.refuse(scheme == "http" && o.CAFile != "", at+"ca_file", o.CAFile, "is for a token_url of https:// only")
	f.refuse(o.ClientID == "", at+"client_id", "", "%stoken_url needs one", at)
	f.refuse(o.ClientSecret == "", at+"client_secret", "", "%stoken_url needs one", at)
}
