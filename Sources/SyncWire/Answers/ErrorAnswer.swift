package import Bytes
internal import JSON

/// The bodies of refusals: `{"error":E,"reason":R}`, and rows of answers for several documents.
package enum ErrorAnswer {
    /// The member `error` of a whole answer: CouchDB's name for 404 and 409, else the phrase of HTTP.
    package static func name(ofStatus status: Int) -> String {
        switch status {
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "not_found"
        case 405: "Method Not Allowed"
        case 406: "Not Acceptable"
        case 409: "conflict"
        case 412: "Precondition Failed"
        case 413: "Request Entity Too Large"
        case 414: "Request URI Too Long"
        case 415: "Unsupported Media Type"
        case 416: "Requested Range Not Satisfiable"
        case 426: "Upgrade Required"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 504: "Gateway Timeout"
        default: "Error \(status)"
        }
    }

    /// The member `error` of a row: CouchDB's names.
    package static func rowName(ofStatus status: Int) -> String {
        switch status {
        case 400: "bad_request"
        case 401: "unauthorized"
        case 403: "forbidden"
        case 404: "not_found"
        case 406: "not_acceptable"
        case 409: "conflict"
        case 412: "file_exists"
        case 415: "bad_content_type"
        default: String(status)
        }
    }

    /// Appends the body of a refusal.
    package static func append(status: Int, reason: String, to output: ByteWriter) {
        output.append("{\"error\":")
        CanonicalJSON.append(string: name(ofStatus: status), to: output)
        output.append(",\"reason\":")
        CanonicalJSON.append(string: reason, to: output)
        output.append("}")
    }

    /// Appends the row of a document that was refused, in `_bulk_docs` and `_bulk_get`.
    ///
    /// `revision` is the one that was asked for; nil leaves the member out.
    package static func appendRow(
        document: String?,
        revision: String? = nil,
        status: Int,
        reason: String,
        to output: ByteWriter
    ) {
        output.append("{\"error\":")
        CanonicalJSON.append(string: rowName(ofStatus: status), to: output)
        append(",\"id\":", document, to: output)
        output.append(",\"reason\":")
        CanonicalJSON.append(string: reason, to: output)
        append(",\"rev\":", revision, to: output)
        output.append(",\"status\":")
        output.append(text: String(status))
        output.append("}")
    }

    /// Appends the row of a document that was written, in `_bulk_docs`.
    package static func appendRow(document: String, revision: String, to output: ByteWriter) {
        output.append("{\"id\":")
        CanonicalJSON.append(string: document, to: output)
        append(",\"rev\":", revision, to: output)
        output.append("}")
    }

    private static func append(_ name: StaticString, _ text: String?, to output: ByteWriter) {
        guard let text else { return }
        output.append(name)
        CanonicalJSON.append(string: text, to: output)
    }
}
