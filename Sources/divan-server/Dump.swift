import Foundation
import Server
