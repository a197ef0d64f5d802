#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "wick/tools/study/page_files.h"

namespace wick::study {

/// `text` as it may stand in HTML, between tags and in quoted attributes.
std::string escaped(std::string_view text);

/// Text that is HTML already.
struct Markup {
  std::string text;
};

/// A piece of a page. What comes in as a string is text, whatever is in it.
class Html {
 public:
  using Attributes = std::vector<std::pair<std::string, std::string>>;

  /// <name attributes>, to be closed by close().
  void open(const std::string& name, const Attributes& attributes = {});
  void close();
  void text(std::string_view words) { out_ += escaped(words); }
  void markup(const Markup& markup) { out_ += markup.text; }
  /// <name attributes>words</name>
  void element(const std::string& name, std::string_view words, const Attributes& attributes = {});
  /// A table with a caption; cells that look like numbers are set to the right.
  void table(const std::string& caption, const std::vector<std::string>& head,
             const std::vector<std::vector<std::string>>& rows);
  /// A chart that page.js draws from `chart` (see there), with a table of the same numbers below.
  void figure(const std::string& title, const nlohmann::json& chart,
              const std::vector<std::string>& head,
              const std::vector<std::vector<std::string>>& rows);
  const std::string& str() const { return out_; }

 private:
  std::string out_;
  std::vector<std::string> open_;
};

/// What a page has beside its text. Unless said otherwise it draws charts.
struct PageParts {
  std::string_view style = {};  // beside that of all pages
  std::vector<std::string_view> scripts = {kChartJs, kPageJs};
};

/// The whole page: its title, what is in it, styles and scripts, and a policy that allows these
/// alone and no request. `sections` are the headings of the contents: (id, title).
std::string page(const std::string& title, const std::string& subtitle,
                 const std::vector<std::pair<std::string, std::string>>& sections, const Html& body,
                 const PageParts& parts = {});

}  // namespace wick::study
