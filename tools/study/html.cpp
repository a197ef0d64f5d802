#include "wick/tools/study/html.h"

#include <fmt/core.h>

#include <algorithm>

#include "wick/core/base/sha256.h"
#include "wick/tools/study/base64.h"

namespace wick::study {

namespace {

bool looks_like_number(const std::string& cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) != 0 ||
                           ((cell[0] == '-' || cell[0] == '+') && cell.size() > 1 &&
                            std::isdigit(static_cast<unsigned char>(cell[1])) != 0));
}

// What a content security policy calls a script.
std::string script_source(std::string_view script) {
  Sha256 hash;
  hash.update(script.data(), script.size());
  const Sha256::Digest digest = hash.digest();
  return "'sha256-" + base64(digest.data(), digest.size()) + "'";
}

void table_body(Html& html, const std::vector<std::string>& head,
                const std::vector<std::vector<std::string>>& rows) {
  html.open("thead");
  html.open("tr");
  for (const std::string& cell : head) html.element("th", cell, {{"scope", "col"}});
  html.close();
  html.close();
  html.open("tbody");
  for (const std::vector<std::string>& row : rows) {
    html.open("tr");
    for (const std::string& cell : row) {
      if (looks_like_number(cell)) {
        html.element("td", cell, {{"class", "number"}});
      } else {
        html.element("td", cell);
      }
    }
    html.close();
  }
  html.close();
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default:
        // Control characters are not allowed in HTML.
        result += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return result;
}

void Html::open(const std::string& name, const Attributes& attributes) {
  out_ += "<" + name;
  for (const auto& [key, value] : attributes) out_ += " " + key + "=\"" + escaped(value) + "\"";
  out_ += ">";
  open_.push_back(name);
}

void Html::close() {
  out_ += "</" + open_.back() + ">\n";
  open_.pop_back();
}

void Html::element(const std::string& name, std::string_view words, const Attributes& attributes) {
  open(name, attributes);
  text(words);
  close();
}

void Html::table(const std::string& caption, const std::vector<std::string>& head,
                 const std::vector<std::vector<std::string>>& rows) {
  open("div",
       {{"class", "scroll"}, {"tabindex", "0"}, {"role", "region"}, {"aria-label", caption}});
  open("table");
  element("caption", caption);
  table_body(*this, head, rows);
  close();
  close();
}

void Html::figure(const std::string& title, const nlohmann::json& chart,
                  const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows) {
  constexpr size_t kShort = 20;
  using nlohmann::json;
  open("figure");
  element("figcaption", title);
  open("div", {{"class", "chart " + chart.value("size", "")}});
  element("canvas", "",
          {{"role", "img"},
           {"aria-label", title + ". The numbers are in the table below."},
           {"data-chart", chart.dump(-1, ' ', false, json::error_handler_t::replace)}});
  close();
  open("details", rows.size() > kShort ? Attributes{} : Attributes{{"open", ""}});
  element("summary", "The numbers");
  table(title, head, rows);
  close();
  close();
}

std::string page(const std::string& title, const std::string& subtitle,
                 const std::vector<std::pair<std::string, std::string>>& sections, const Html& body,
                 const PageParts& parts) {
  std::string sources, scripts;
  for (const std::string_view script : parts.scripts) {
    sources += " " + script_source(script);
    scripts += fmt::format("<script>{}</script>\n", script);
  }
  const std::string policy = fmt::format(
      "default-src 'none'; script-src{}; style-src 'unsafe-inline'; img-src data:; "
      "base-uri 'none'; form-action 'none'",
      sources);
  Html head;
  head.open("head");
  head.markup({"<meta charset=\"utf-8\">\n"});
  head.markup({"<meta http-equiv=\"Content-Security-Policy\" content=\"" + escaped(policy) +
               "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
               "<meta name=\"color-scheme\" content=\"light dark\">\n"
               "<link rel=\"icon\" href=\"data:,\">\n"});
  head.element("title", title);
  head.markup({fmt::format("<style>{}{}</style>\n", kPageCss, parts.style)});
  head.close();
  Html top;
  top.element("a", "To the contents", {{"class", "skip"}, {"href", "#main"}});
  top.open("header");
  top.element("h1", title);
  top.element("p", subtitle);
  if (!sections.empty()) {
    top.open("nav", {{"aria-label", "Sections"}});
    for (const auto& [id, name] : sections) top.element("a", name, {{"href", "#" + id}});
    top.close();
  }
  top.close();
  return "<!DOCTYPE html>\n<html lang=\"en\">\n" + head.str() + "<body>\n" + top.str() +
         "<main id=\"main\">\n" + body.str() + "</main>\n" + scripts + "</body>\n</html>\n";
}

}  // namespace wick::study
