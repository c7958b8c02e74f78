// TLS by certificate files. Internal to the folder; without OpenSSL (EI_HAVE_TLS) asking for it is an error.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

#ifdef EI_HAVE_TLS
#include <boost/asio/ssl/context.hpp>
#endif

namespace ei::server {

struct TlsContext {
#ifdef EI_HAVE_TLS
  boost::asio::ssl::context context{boost::asio::ssl::context::tls_server};
#endif
};

// PEM files: the certificate with those that vouch for it behind it, and its key. Null where both names are empty;
// kUsage for files that will not do.
Result<std::unique_ptr<TlsContext>> load_tls(const std::string& certificate_file, const std::string& key_file);

}  // namespace ei::server
