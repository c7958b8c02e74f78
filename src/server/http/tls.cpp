#include "server/http/tls.h"

#include <fstream>
#include <utility>

namespace ei::server {

Result<std::unique_ptr<TlsContext>> load_tls(const std::string& certificate_file, const std::string& key_file) {
  if (certificate_file.empty() && key_file.empty()) return std::unique_ptr<TlsContext>();
  if (certificate_file.empty() || key_file.empty())
    return make_error(ErrorKind::kUsage, "TLS needs both --ssl-cert-file and --ssl-key-file");
#ifdef EI_HAVE_TLS
  for (const std::string& file : {certificate_file, key_file})
    if (!std::ifstream(file)) return make_error(ErrorKind::kUsage, "cannot read %s", file.c_str());
  auto tls = std::make_unique<TlsContext>();
  namespace ssl = boost::asio::ssl;
  boost::system::error_code error;
  const auto fail = [&](const std::string& file, const char* what) {
    return make_error(ErrorKind::kUsage, "%s holds no %s in PEM (%s)", file.c_str(), what, error.message().c_str());
  };
  tls->context.set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1,
                           error);
  // OpenSSL would ask for a key's password on the terminal.
  tls->context.set_password_callback([](size_t, ssl::context::password_purpose) { return std::string(); }, error);
  tls->context.use_certificate_chain_file(certificate_file, error);
  if (error) return fail(certificate_file, "certificate");
  tls->context.use_private_key_file(key_file, ssl::context::pem, error);
  if (error) return fail(key_file, "key without a password that belongs to the certificate");
  return tls;
#else
  return make_error(ErrorKind::kUsage, "built without TLS (no OpenSSL): leave --ssl-cert-file out and use a proxy");
#endif
}

}  // namespace ei::server
