#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

/* Swift does not import macros that call functions or cast constants. */

static inline int divan_ssl_use_tls13_only(SSL_CTX *context) {
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set1_groups_list(context, "X25519") == 1 &&
         SSL_CTX_set1_sigalgs_list(context, "ed25519") == 1;
}

static inline int divan_ssl_use_tls12_or_later(SSL_CTX *context) {
  return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
}

static inline void divan_ssl_keep_no_sessions(SSL_CTX *context) {
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_num_tickets(context, 0);
}

static inline void divan_ssl_bound_buffers(SSL_CTX *context, size_t input) {
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY |
                                SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  /* A certificate of a node has some 250 bytes. */
  SSL_CTX_set_max_cert_list(context, 4096);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, input);
}

static inline void divan_bio_set_retry_read(BIO *bio) {
  BIO_clear_retry_flags(bio);
  BIO_set_retry_read(bio);
}

static inline void divan_bio_clear_retry(BIO *bio) { BIO_clear_retry_flags(bio); }

static inline int divan_bio_is_flush(int command) { return command == BIO_CTRL_FLUSH; }
