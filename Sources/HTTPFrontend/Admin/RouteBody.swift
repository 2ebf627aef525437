internal import Orchestration

extension AdminRequest {
    /// Why the body is not what a route reads; nil where it is, or where there is none.
    func flaw(ofBody kind: Route.Body) -> FieldError? {
        guard kind == .form, !body.isEmpty else { return nil }
        // Read as a form it would say nothing, and every field would be missed.
        if contentType == "application/json", looksLikeJSON {
            let text = "The body is read as a form (application/x-www-form-urlencoded), not as JSON"
            return FieldError("_", text)
        }
        return formFields.illFormedField()
    }
}
