/// The definition in a design document's text: its views and its options.
///
/// Derived from the text (`init(of:)`); other members of the text define nothing and are kept.
package struct DesignDefinition: Hashable, Sendable {
    /// One view: a map function, and perhaps a reduce function over its rows.
    package struct View: Hashable, Sendable {
        package var name: String
        /// JavaScript source.
        package var map: String
        /// JavaScript source, or the name of a built-in function (`builtInReductions`); nil if
        /// there is none.
        package var reduce: String?

        package init(name: String, map: String, reduce: String? = nil) {
            self.name = name
            self.map = map
            self.reduce = reduce
        }

        /// Whether the reduce function is JavaScript source.
        package var hasCustomReduce: Bool {
            reduce.map { !DesignDefinition.builtInReductions.contains($0) } ?? false
        }
    }

    /// The options of a design document.
    package struct Options: Hashable, Sendable {
        /// Whether tombstones with extended attributes are indexed: `index_xattr_on_deleted_docs`
        /// beside the views, where gateways write it, or within `options`.
        package var indexesTombstones = false
        /// Changes after which an index is updated without a query; nil for the bucket's default.
        package var updateMinChanges: Int?
        /// The same for the index of replicas.
        package var replicaUpdateMinChanges: Int?

        package init() {}
    }

    package static let builtInReductions: Set<String> = ["_count", "_sum", "_stats"]

    /// In the order of the text; names differ.
    package var views: [View]
    package var options: Options

    /// A document without views.
    package init(views: [View] = [], options: Options = Options()) {
        self.views = views
        self.options = options
    }

    /// The view with exactly this name; nil if there is none.
    package func view(named name: String) -> View? {
        views.first { $0.name.utf8.elementsEqual(name.utf8) }
    }
}
